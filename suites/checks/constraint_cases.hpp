#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/constraint_engine.hpp"
#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"
#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// A configuration and what must become of it.
struct ConstraintCase {
  std::string name;
  matrix::TrainingConfig config;
  matrix::PlatformSettings platform;
  std::string_view rule;  ///< that must be among the violated ones; empty where it must be admitted
  matrix::Ruleset ruleset = matrix::Ruleset::cgconform;
};

/// Legal configurations that the cases change in one place: a dense model captured layer by layer,
/// its whole iteration captured, and a drop-and-pad mixture of experts.
matrix::TrainingConfig legal_local();
matrix::TrainingConfig legal_full_iteration();
matrix::TrainingConfig legal_moe(matrix::CudaGraphImpl impl);

/// `config` with another scope.
matrix::TrainingConfig with_scope(matrix::TrainingConfig config, matrix::CudaGraphScope scope);

/// The implementations that capture layers, for tables over both.
struct LayerImpl {
  matrix::CudaGraphImpl impl;
  std::string_view name;
};
inline constexpr std::array layer_impls{
    LayerImpl{matrix::CudaGraphImpl::local, "local"},
    LayerImpl{matrix::CudaGraphImpl::transformer_engine, "transformer_engine"},
};

/// The ids of the rules that a ruleset finds violated, in its own order, as a self-test may have
/// tampered with them. Of the frameworks' rulesets the layer `config` alone is judged.
std::vector<std::string_view> violated_rules(const matrix::TrainingConfig& config,
                                             const matrix::PlatformSettings& platform,
                                             const ScenarioContext& context,
                                             matrix::Ruleset ruleset = matrix::Ruleset::cgconform);

/// Judges every case; the first that goes wrong is named.
CheckResult judge_cases(const std::vector<ConstraintCase>& cases, const ScenarioContext& context);

}  // namespace cgconform::suites::checks
