#pragma once

#include <span>
#include <string_view>

#include "suites/check.hpp"
#include "workloads/device/errors.hpp"

namespace cgconform::suites::checks {

class CaptureScene;

/// A call that capture refuses, and the code CUDA gives for it.
struct IllegalCall {
  std::string_view name;
  workloads::ErrorCategory expected;
  /// Begins a capture and makes the call; throws DeviceError where the device refuses it.
  void (*make)(CaptureScene& scene);
};

/// Every call that is made, with the codes of the CUDA 13.0 runtime.
std::span<const IllegalCall> illegal_calls();

/// Makes each of `calls` in a scene of its own. A call that gives another code, or none, fails the
/// capture rules (FAIL_CAPTURE); a scene that cannot work eagerly afterwards fails the recovery
/// (FAIL_RECOVERY).
CheckResult judge_illegal_calls(workloads::Device& device, std::span<const IllegalCall> calls);

/// LIF-02
CheckResult judge_capture_rules(ScenarioContext& context);

}  // namespace cgconform::suites::checks
