#pragma once

#include "suites/check.hpp"

/// Scenarios about the random states of a tracker, which lie in device memory.
namespace cgconform::suites::checks {

/// NUM-09: a new seed between replays changes the masks, the old one brings them back.
CheckResult judge_reseed(ScenarioContext& context);
/// NUM-10: a saved state brings the masks back; eager and graph draws in turn are one sequence.
CheckResult judge_saved_random_state(ScenarioContext& context);
/// NUM-11: ranks that replicate draw equal masks, ranks that share out different ones.
CheckResult judge_masks_of_ranks(ScenarioContext& context);
/// The same with one stream for the parts of all ranks, as a fault: fails.
CheckResult draw_parts_from_one_stream(ScenarioContext& context);

}  // namespace cgconform::suites::checks
