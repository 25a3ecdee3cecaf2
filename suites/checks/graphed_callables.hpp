#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// NUM-01, beside the cells: graphs of all layers as one callable, forward alone and with a
/// backward, after 3 and after 11 runs on a side stream, hand out what eager code hands out.
CheckResult judge_graphed_callables(ScenarioContext& context);

}  // namespace cgconform::suites::checks
