#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// MEM-04: forwards and backwards of two micro-batches share a pool that was planned for one order.
/// That order is right; another is refused before anything runs, and without the refusal it gives
/// wrong results, which shows that there is something to refuse.
CheckResult judge_replay_order(ScenarioContext& context);

/// MEM-08: a graph's output is readable while it is held, also when the graph is gone, and its
/// memory comes back once it is let go.
CheckResult judge_held_outputs(ScenarioContext& context);

}  // namespace cgconform::suites::checks
