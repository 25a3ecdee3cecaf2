#pragma once

#include <memory>

#include "harness/planned_cell.hpp"
#include "harness/run_options.hpp"
#include "matrix/cell_plan.hpp"

namespace cgconform::harness {

/// The cells of a plan in their order, on so many ranks: classified ahead in a thread of their own,
/// a bounded number at a time. Throws InputError where every cell that could run needs more ranks.
std::unique_ptr<CellSource> matrix_source(std::shared_ptr<const matrix::CellPlan> plan, int ranks,
                                          const RunOptions& options);

}  // namespace cgconform::harness
