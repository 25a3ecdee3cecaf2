#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "matrix/enum_set.hpp"
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
using Rulesets = EnumSet<Ruleset>;

/// Where a framework enforces a rule: in its configuration class, its argument validation, Bridge's
/// validation, or by an assertion met while graphs are built or replayed.
enum class Layer : std::uint8_t { config, args, bridge, build, replay };
using Layers = EnumSet<Layer>;
constexpr Layers all_layers{Layer::config, Layer::args, Layer::bridge, Layer::build, Layer::replay};

/// Index of a rule in the constraint table; its order is the stable order of violations.
enum class RuleIndex : std::uint16_t {};

/// What evaluating one configuration gives, without allocating where nothing is violated.
struct Evaluation {
  std::vector<RuleIndex> violations;
  std::vector<RuleIndex> warnings;
  std::vector<RuleIndex> repairs;  ///< normalisations that changed or reinterpreted a field
  TrainingConfig normalised;       ///< after the framework's silent repairs
  bool legal() const { return violations.empty(); }
};

/// Name of a ruleset as `--ruleset` takes it, such as `mcore-0.20`.
std::string_view ruleset_name(Ruleset ruleset);
std::optional<Ruleset> find_ruleset(std::string_view name);
std::span<const Ruleset> all_rulesets();

/// Name of a layer as `--layers` takes it.
std::string_view layer_name(Layer layer);
std::optional<Layer> find_layer(std::string_view name);

/// The stable id of a rule, such as `moe-xor-router`.
std::string_view rule_id(RuleIndex rule);

/// Applies the ruleset's normalisations, then judges every rule of the given layers. `scratch` is
/// reused between calls.
void evaluate(Ruleset ruleset, Layers layers, const TrainingConfig& config,
              const PlatformSettings& platform, Evaluation& scratch);

/// The same with the rules of all layers.
void evaluate(Ruleset ruleset, const TrainingConfig& config, const PlatformSettings& platform,
              Evaluation& scratch);

}  // namespace cgconform::matrix
