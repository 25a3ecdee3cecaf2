#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// LIF-07 on a cell: the leg's graphs were destroyed before the memory and the communicator they
/// use, all of them, and none came after.
CheckResult judge_teardown(JudgeContext& context);

}  // namespace cgconform::suites::checks
