#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// NUM-08: every dropout mask of the instrumented graph leg equals that of the eager leg at the
/// same place, and masks of one layer drawn at different times differ from each other.
CheckResult judge_dropout_masks(JudgeContext& context);

}  // namespace cgconform::suites::checks
