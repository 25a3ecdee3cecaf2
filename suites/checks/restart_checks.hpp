#pragma once

#include <vector>

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// Cells with graphs and an optimizer that has counters and moments to lose.
bool restarted_cells(const matrix::Cell& cell);
/// An eager leg, and a graph leg that saves, ends, loads in new memory and captures again.
std::vector<workloads::LegRequest> restart_legs(const matrix::Cell& cell);
/// NUM-29: losses and weights go the same way with and without the restart.
CheckResult judge_restart(JudgeContext& context);

}  // namespace cgconform::suites::checks
