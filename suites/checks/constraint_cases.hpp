#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"
#include "suites/result_record.hpp"

namespace cgconform::suites::checks {

/// A configuration and what must become of it.
struct ConstraintCase {
  std::string name;
  matrix::TrainingConfig config;
  matrix::PlatformSettings platform;
  std::string_view rule;  ///< that must be among the violated ones; empty where it must be admitted
};

/// Legal configurations that the cases change in one place: a dense model captured layer by layer,
/// its whole iteration captured, and a drop-and-pad mixture of experts.
matrix::TrainingConfig legal_local();
matrix::TrainingConfig legal_full_iteration();
matrix::TrainingConfig legal_moe(matrix::CudaGraphImpl impl);

/// The ids of the rules that the ruleset `cgconform` finds violated, in its own order.
std::vector<std::string_view> violated_rules(const matrix::TrainingConfig& config,
                                             const matrix::PlatformSettings& platform);

/// Judges every case; the first that goes wrong is named.
CheckResult judge_cases(const std::vector<ConstraintCase>& cases);

}  // namespace cgconform::suites::checks
