#include "matrix/constraint_engine.hpp"

#include <array>

#include "matrix/constraint_facts.hpp"
#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

constexpr std::array ruleset_order{
    Ruleset::seed,       Ruleset::cgconform,        Ruleset::mcore_0_17,
    Ruleset::mcore_0_20, Ruleset::megatron_lm_0_20, Ruleset::bridge_0_6};
constexpr std::array layer_order{Layer::config, Layer::args, Layer::bridge, Layer::build,
                                 Layer::replay};

/// What the inner loop needs of a rule, side by side in memory.
struct Step {
  Gates when;
  Layer layer;
  Action action;
  Library library;
  RuleIndex index;
  bool (*broken)(const Facts&);
  void (*repair)(TrainingConfig&);
};

/// The decidable rules of one ruleset: repairs first, in table order, then the rest.
struct Program {
  std::vector<Step> repairs;
  std::vector<Step> rules;
};

std::array<Program, ruleset_order.size()> compile_programs() {
  std::array<Program, ruleset_order.size()> programs;
  const std::span<const Rule> table = constraint_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Rule& rule = table[i];
    if (!rule.decidable()) continue;
    const Step step{rule.when,   rule.layer, rule.action, rule.library, static_cast<RuleIndex>(i),
                    rule.broken, rule.repair};
    for (Ruleset ruleset : ruleset_order) {
      if (!rule.rulesets.contains(ruleset)) continue;
      Program& program = programs[static_cast<std::size_t>(ruleset)];
      (rule.action == Action::auto_fix ? program.repairs : program.rules).push_back(step);
    }
  }
  return programs;
}

const Program& program_of(Ruleset ruleset) {
  static const std::array<Program, ruleset_order.size()> programs = compile_programs();
  return programs[static_cast<std::size_t>(ruleset)];
}

/// Both names of the scope are one field to the rules.
void merge_scope_names(TrainingConfig& config) {
  if (!config.cuda_graph_modules) return;
  if (config.cuda_graph_scope.empty()) config.cuda_graph_scope = *config.cuda_graph_modules;
  config.cuda_graph_modules.reset();
}

enum class VersionState : std::uint8_t { enough, too_old, unknown };

VersionState version_state(const Rule& rule, const PlatformSettings& platform) {
  const std::optional<Version>& version =
      rule.library == Library::torch ? platform.torch : platform.transformer_engine;
  if (!version) return VersionState::unknown;
  return *version < rule.at_least ? VersionState::too_old : VersionState::enough;
}

}  // namespace

std::string_view ruleset_name(Ruleset ruleset) {
  switch (ruleset) {
    case Ruleset::seed:
      return "seed";
    case Ruleset::cgconform:
      return "cgconform";
    case Ruleset::mcore_0_17:
      return "mcore-0.17";
    case Ruleset::mcore_0_20:
      return "mcore-0.20";
    case Ruleset::megatron_lm_0_20:
      return "megatron-lm-0.20";
    case Ruleset::bridge_0_6:
      return "bridge-0.6";
  }
  return {};
}

std::optional<Ruleset> find_ruleset(std::string_view name) {
  for (Ruleset ruleset : ruleset_order) {
    if (ruleset_name(ruleset) == name) return ruleset;
  }
  return std::nullopt;
}

std::span<const Ruleset> all_rulesets() {
  return ruleset_order;
}

std::string_view layer_name(Layer layer) {
  switch (layer) {
    case Layer::config:
      return "config";
    case Layer::args:
      return "args";
    case Layer::bridge:
      return "bridge";
    case Layer::build:
      return "build";
    case Layer::replay:
      return "replay";
  }
  return {};
}

std::optional<Layer> find_layer(std::string_view name) {
  for (Layer layer : layer_order) {
    if (layer_name(layer) == name) return layer;
  }
  return std::nullopt;
}

void evaluate(Ruleset ruleset, Layers layers, const TrainingConfig& config,
              const PlatformSettings& platform, Evaluation& scratch) {
  scratch.violations.clear();
  scratch.warnings.clear();
  scratch.repairs.clear();
  scratch.normalised = config;
  merge_scope_names(scratch.normalised);

  const Program& program = program_of(ruleset);
  const Facts facts{ruleset, config, scratch.normalised, platform};
  Gates gates = facts.gates();
  for (const Step& step : program.repairs) {
    if (!step.when.is_subset_of(gates) || !layers.contains(step.layer)) continue;
    if (!step.broken(facts)) continue;
    scratch.repairs.push_back(step.index);
    if (step.repair == nullptr) continue;
    step.repair(scratch.normalised);
    gates = facts.gates();
  }
  for (const Step& step : program.rules) {
    if (!step.when.is_subset_of(gates) || !layers.contains(step.layer)) continue;
    if (!step.broken(facts)) continue;
    bool rejected = step.action == Action::reject;
    if (step.library != Library::none) {
      const VersionState state = version_state(rule_at(step.index), platform);
      if (state == VersionState::enough) continue;
      rejected = rejected && state == VersionState::too_old;
    }
    (rejected ? scratch.violations : scratch.warnings).push_back(step.index);
  }
}

void evaluate(Ruleset ruleset, const TrainingConfig& config, const PlatformSettings& platform,
              Evaluation& scratch) {
  evaluate(ruleset, all_layers, config, platform, scratch);
}

}  // namespace cgconform::matrix
