#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// LIF-10 within the process: a training that returns early, in a step, in a capture, before a
/// replay or with one in flight, leaves nothing behind, and the same training runs rightly after
/// it. Runs on one rank, or on all ranks of a gang.
CheckResult judge_early_return(ScenarioContext& context);

}  // namespace cgconform::suites::checks
