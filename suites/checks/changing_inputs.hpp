#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// NUM-05: the loss mask, and the borders of packed sequences where there are any, differ between
/// the calls of a leg, and what layers and losses give under them is equal in both legs.
CheckResult judge_changing_inputs(JudgeContext& context);

}  // namespace cgconform::suites::checks
