#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// LIF-03: a capture that breaks is unwound, whatever its mode, its memory and what broke it, with
/// and without a collective in it. Five parts: no stream captures, eager work is right, a
/// collective is right, the memory is back, a new capture is right.
CheckResult judge_capture_recovery(ScenarioContext& context);

}  // namespace cgconform::suites::checks
