#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// Cells whose implementation captures and whose linear layers are quantised.
bool graph_cells_with_fp8(const matrix::Cell& cell);
/// Of these, those whose scales follow a history of magnitudes.
bool graph_cells_with_delayed_scaling(const matrix::Cell& cell);

/// NUM-14: history and scale of the graph leg are eager's, and move from step to step.
CheckResult judge_fp8_history(JudgeContext& context);
/// NUM-14 on the device: inputs that double at every step, eager and from a graph.
CheckResult judge_doubling_range(ScenarioContext& context);
/// NUM-15: the history moves on once a step, and magnitudes are reduced over ranks once: in a node
/// each of a captured iteration, and in none of a layer's graphs.
CheckResult judge_fp8_updates(JudgeContext& context);
/// NUM-16: training quantises every weight once a step.
CheckResult judge_weight_refreshes(JudgeContext& context);

}  // namespace cgconform::suites::checks
