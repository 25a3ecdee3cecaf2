#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/planned_cell.hpp"
#include "harness/run_options.hpp"
#include "matrix/cell_plan.hpp"

namespace cgconform::harness {

/// The cells of a plan in their order, on so many ranks: classified ahead in a thread of their own,
/// a bounded number at a time. Throws InputError where every cell that could run needs more ranks.
std::unique_ptr<CellSource> matrix_source(const std::shared_ptr<const matrix::CellPlan>& plan,
                                          int ranks, const RunOptions& options);

/// The scenarios that a run with these options runs once beside its cells, by id: each a program
/// that needs no training. A filter leaves them out; `--cell` and `--shard` choose among them.
std::vector<std::string> scenario_ids(const RunOptions& options);

/// True where `--cell` names a scenario by id or by the first digits of its hash.
bool is_scenario(const std::string& cell);

}  // namespace cgconform::harness
