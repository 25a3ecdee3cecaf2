#pragma once

#include <vector>

#include "suites/check.hpp"

namespace cgconform::suites::checks {

std::vector<workloads::LegRequest> guard_legs(const matrix::Cell& cell);
/// MEM-17 on a cell: nothing was written outside blocks, and no freed block was read.
CheckResult judge_guards(JudgeContext& context);
/// MEM-17 on the bare device, with a copy that is too long as the proof that one is seen.
CheckResult judge_guard_control(ScenarioContext& context);

}  // namespace cgconform::suites::checks
