#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// NUM-34: every op in every floating type, and whole eager training steps, give on the run's
/// device what they give on the reference device, within the tolerances stated here. Skipped where
/// the run's device is the reference device.
CheckResult judge_device_agreement(ScenarioContext& context);

/// As above for any device, with `reference` to compare with.
CheckResult judge_agreement(workloads::Device& device, workloads::Device& reference,
                            const ScenarioContext& context);

}  // namespace cgconform::suites::checks
