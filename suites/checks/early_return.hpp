#pragma once

#include <string>

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// LIF-10 within the process: a training that returns early, in a step, in a capture, before a
/// replay or with one in flight, leaves nothing behind, and the same training runs rightly after
/// it. Runs on one rank, or on all ranks of a gang.
CheckResult judge_early_return(ScenarioContext& context);

/// What is wrong with a teardown that took so long after an early return; empty where nothing is.
/// The limit follows what the same training took undisturbed, so that a slow host or a wrapper
/// slows down both: what was in flight at the return has to end before the teardown can.
std::string late_teardown(double seconds, double undisturbed_seconds);

}  // namespace cgconform::suites::checks
