#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// LIF-01: every capture window was audited and no call in it failed.
CheckResult judge_capture_calls(JudgeContext& context);
/// LIF-17: nothing ran while it was captured, and each graph holds as many nodes of work as its
/// body launches eagerly, all of which run at every replay.
CheckResult judge_capture_completeness(JudgeContext& context);

}  // namespace cgconform::suites::checks
