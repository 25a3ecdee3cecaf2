#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// NUM-25: training goes the same way with and without validation steps.
std::vector<workloads::LegRequest> validation_legs(const matrix::Cell& cell);
CheckResult judge_validation(JudgeContext& context);

/// NUM-30: two graph runs are equal, and so are the graphs they captured.
CheckResult judge_repeated_captures(JudgeContext& context);

}  // namespace cgconform::suites::checks
