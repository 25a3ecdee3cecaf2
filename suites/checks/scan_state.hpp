#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

bool graph_cells_with_scans(const matrix::Cell& cell);

/// NUM-23: in the instrumented graph leg every selective scan starts and ends in the states of the
/// eager leg, each sequence starts anew from the same state, and what is carried along it differs
/// from that.
CheckResult judge_scan_states(JudgeContext& context);

}  // namespace cgconform::suites::checks
