#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// COM-09: the ranks agreed before every launch that communicates. That they did not shows in the
/// leg that ended by it.
CheckResult judge_launch_agreement(JudgeContext& context);

/// COM-22: every communicator was asked at the end of every phase, and none had failed.
CheckResult judge_async_errors(JudgeContext& context);

}  // namespace cgconform::suites::checks
