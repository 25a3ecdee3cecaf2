#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "matrix/cell_plan.hpp"
#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// What is selected of a matrix, in order; throws InputError as CellPlan does.
using Selector = std::vector<std::string> (*)(const matrix::Matrix& matrix,
                                              const matrix::PlanOptions& options,
                                              std::uint64_t round);

/// The ids that a plan visits.
std::vector<std::string> selected_ids(const matrix::Matrix& matrix,
                                      const matrix::PlanOptions& options, std::uint64_t round);

/// SUI-07 and SUI-08 with a selector in the plan's place.
CheckResult judge_selection_by(Selector select);
CheckResult judge_empty_selection_by(Selector select);

CheckResult judge_selection(ScenarioContext& context);        ///< SUI-07
CheckResult judge_empty_selection(ScenarioContext& context);  ///< SUI-08

}  // namespace cgconform::suites::checks
