#pragma once

#include "suites/check.hpp"

/// Parameters that replicas gather beside the forward.
namespace cgconform::suites::checks {

/// Cells whose implementation captures and whose replicas gather parameters bucket by bucket while
/// the forward runs.
bool graph_cells_that_gather(const matrix::Cell& cell);

/// COM-30: graphs of iterations hold the gather of every bucket, graphs of layers hold none. Beside
/// these every bucket is gathered as often as in eager steps, and before a replay reads it. All
/// tensors equal eager.
CheckResult judge_parameter_gathers(JudgeContext& context);

}  // namespace cgconform::suites::checks
