#pragma once

#include <vector>

#include "suites/check.hpp"

namespace cgconform::suites::checks {

std::vector<workloads::LegRequest> baseline_legs(const matrix::Cell& cell);
/// MEM-02: after the teardown a leg holds what it held before its first step.
CheckResult judge_baseline(JudgeContext& context);

std::vector<workloads::LegRequest> pool_legs(const matrix::Cell& cell);
/// MEM-03: one pool for all graphs needs less than a pool for each, and both are right.
CheckResult judge_pools(JudgeContext& context);

std::vector<workloads::LegRequest> peak_legs(const matrix::Cell& cell);
/// MEM-05: the peak with graphs against the peak of eager.
CheckResult judge_peak(JudgeContext& context);

}  // namespace cgconform::suites::checks
