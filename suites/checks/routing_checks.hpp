#pragma once

#include "suites/check.hpp"

/// Judges of how tokens are routed to experts.
namespace cgconform::suites::checks {

/// Cells with experts whose graphs are compared with eager runs.
bool graph_cells_with_experts(const matrix::Cell& cell);
/// Those whose experts take a fixed number of tokens.
bool graph_cells_that_drop(const matrix::Cell& cell);

/// NUM-20: routing changes from replay to replay as in eager, loads count every token, and the
/// load-balancing loss is eager's.
CheckResult judge_routing(JudgeContext& context);
/// NUM-21: every token either has a row of its expert or is counted as overflow.
CheckResult judge_capacity(JudgeContext& context);
/// NUM-21 on the device: a captured router that fills a capacity exactly, then gets one token more.
CheckResult judge_full_capacity(ScenarioContext& context);

}  // namespace cgconform::suites::checks
