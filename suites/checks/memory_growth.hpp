#pragma once

#include <vector>

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// The leg of MEM-01.
std::vector<workloads::LegRequest> growth_legs(const matrix::Cell& cell);
/// MEM-01: what the cycles of the cell's own implementation leave behind.
CheckResult judge_cycles(JudgeContext& context);
/// MEM-01: a hundred cycles of a small graph on the bare device.
CheckResult judge_hundred_cycles(ScenarioContext& context);
/// The control C9: the same, with memory that the first cycles raise once.
CheckResult judge_raised_once(ScenarioContext& context);

}  // namespace cgconform::suites::checks
