#pragma once

#include <vector>

#include "suites/check.hpp"

/// Judges of recompute: masks drawn again, and results with recompute on and off.
namespace cgconform::suites::checks {

/// Cells with graphs in which some backward draws dropout masks again.
bool graph_cells_that_redraw(const matrix::Cell& cell);
bool cells_with_recompute(const matrix::Cell& cell);
/// The plain legs, each with recompute and without.
std::vector<workloads::LegRequest> recompute_legs(const matrix::Cell& cell);

/// NUM-12: every mask drawn again equals that of its forward, in every step, replayed or not.
CheckResult judge_recomputed_masks(JudgeContext& context);
/// NUM-13: gradients and what follows from them are equal with recompute on and off.
CheckResult judge_recompute_on_and_off(JudgeContext& context);

}  // namespace cgconform::suites::checks
