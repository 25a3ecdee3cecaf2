#pragma once

#include <memory>

#include "harness/coordinator.hpp"
#include "harness/run_options.hpp"
#include "matrix/cell_plan.hpp"

namespace cgconform::harness {

/// The device that cells are classified for before the ranks are known.
matrix::TargetDevice target_device(const RunOptions& options);

/// The plan of the options' matrix and selection for a device, whose GPUs ranks may share. Fills
/// the ids of the cells to rerun from the earlier report. Throws InputError.
std::shared_ptr<const matrix::CellPlan> plan_matrix(RunOptions& options,
                                                    matrix::TargetDevice device,
                                                    bool gpus_shared = false);

/// Plans what the options ask for: a matrix, or mock cells.
std::unique_ptr<Planner> planner_for(const RunOptions& options);

}  // namespace cgconform::harness
