#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {

/// Named, versioned collections of rules. `cgconform` classifies the cells of a matrix; the others
/// model a framework (`cgconform check --ruleset NAME`).
enum class Ruleset : std::uint8_t {
  seed,
  cgconform,
  mcore_0_17,
  mcore_0_20,
  megatron_lm_0_20,
  bridge_0_6,
};

/// Index of a rule in the constraint table; its order is the stable order of violations.
enum class RuleIndex : std::uint16_t {};

/// What evaluating one configuration gives, without allocating where nothing is violated.
struct Evaluation {
  std::vector<RuleIndex> violations;
  std::vector<RuleIndex> warnings;
  TrainingConfig normalised;  ///< after the framework's silent repairs
  bool legal() const { return violations.empty(); }
};

/// The stable id of a rule, such as `moe-xor-router`.
std::string_view rule_id(RuleIndex rule);

/// Applies the ruleset's normalisations, then judges every rule. `scratch` is reused between calls.
void evaluate(Ruleset ruleset, const TrainingConfig& config, const PlatformSettings& platform,
              Evaluation& scratch);

}  // namespace cgconform::matrix
