#pragma once

#include <vector>

#include "suites/check.hpp"

/// Judges of the training state around capture and warm-up.
namespace cgconform::suites::checks {

/// The legs of NUM-07: graph legs with warm-up 0, 1, 3 and 11, each long enough to replay, and an
/// eager leg as long as the longest.
std::vector<workloads::LegRequest> warmup_legs(const matrix::Cell& cell);

/// Steps after which every training graph of the cell has been replayed.
std::int32_t steps_to_replay(const matrix::Cell& cell);

/// Cells whose whole iteration and whose optimizer are graphs.
bool cells_with_graphed_training(const matrix::Cell& cell);
/// The legs of NUM-32: eager and graph, with 20 replays of the iteration and more.
std::vector<workloads::LegRequest> graphed_training_legs(const matrix::Cell& cell);

/// NUM-06: what a capture must leave alone has the same hash before its warm-up and after it.
CheckResult judge_state_over_capture(JudgeContext& context);
/// NUM-07: losses and weights do not depend on the number of warm-up steps.
CheckResult judge_warmups(JudgeContext& context);
/// NUM-17: learning rate, counters and what the optimizer makes of them follow eager's.
CheckResult judge_advancing_state(JudgeContext& context);
/// NUM-32: iteration and optimizer from graphs equal eager over at least 20 replays.
CheckResult judge_graphed_training(JudgeContext& context);

}  // namespace cgconform::suites::checks
