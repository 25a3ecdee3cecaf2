#pragma once

#include "suites/check.hpp"
#include "suites/comparison.hpp"

namespace cgconform::suites::checks {

/// Gives `comparator` pairs of tensors whose outcome is known: NaN against a number, signs of
/// infinities and zeros, shapes, empty tensors, one ulp inside and outside a tolerance. The first
/// wrong answer fails (FAIL_SUITE).
CheckResult judge_comparator(workloads::Device& device, TensorComparator& comparator);

/// NUM-33: judge_comparator for the device's own comparator.
CheckResult judge_device_comparator(ScenarioContext& context);

}  // namespace cgconform::suites::checks
