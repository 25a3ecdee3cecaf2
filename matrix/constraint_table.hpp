#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/constraint_engine.hpp"
#include "matrix/constraint_facts.hpp"
#include "matrix/platform_settings.hpp"

namespace cgconform::matrix {

/// What the framework does where a rule is not kept.
enum class Action : std::uint8_t {
  reject,
  warn,
  auto_fix,
  behaviour,  ///< nothing to keep: a statement of what the code does, for `explain`
};

enum class Subject : std::uint8_t {
  implementation_and_scope,
  random_numbers,
  nan_checks,
  offloading,
  moe_scopes,
  recompute,
  allocator,
  delayed_wgrad,
  shapes_and_packing,
  pipeline_order,
  warmup_and_capture,
  parameter_gather,
  low_precision,
  inference_and_optimizer,
  holes,
  ambiguities,
};

enum class Library : std::uint8_t { none, transformer_engine, torch };

/// One rule. Rows that share an id are variants of one rule for different rulesets.
struct Rule {
  std::string_view id;
  Subject subject = Subject::implementation_and_scope;
  Rulesets rulesets{};
  Layer layer = Layer::config;
  Action action = Action::reject;
  std::string_view statement{};    ///< what must hold, or when the row applies
  std::string_view message{};      ///< what the configuration does
  std::string_view remedy{};       ///< what to change
  std::string_view consequence{};  ///< what breaks if it is ignored
  std::string_view source{};       ///< tags and lines, see `source_files`; or in words
  std::array<std::string_view, 6> fields{};
  /// `broken` is asked only where all of these hold.
  Gates when{};
  /// True where the rule is not kept (warn, auto_fix: where it applies). Null for a row that no
  /// configuration can decide: it is met while graphs are built or replayed.
  bool (*broken)(const Facts&) = nullptr;
  /// For auto_fix: what the framework changes; null where it changes nothing that is modelled.
  void (*repair)(TrainingConfig&) = nullptr;
  /// With a library, `broken` says when the version is needed; an unknown version is a warning.
  Library library = Library::none;
  Version at_least{};

  bool decidable() const { return broken != nullptr; }
};

/// Sets of rulesets that rows share.
constexpr Rulesets seeds{Ruleset::seed, Ruleset::cgconform};
constexpr Rulesets head{Ruleset::mcore_0_20, Ruleset::megatron_lm_0_20, Ruleset::bridge_0_6};
constexpr Rulesets mcore{Ruleset::mcore_0_17, Ruleset::mcore_0_20, Ruleset::megatron_lm_0_20,
                         Ruleset::bridge_0_6};
constexpr Rulesets all{Ruleset::seed,       Ruleset::cgconform,        Ruleset::mcore_0_17,
                       Ruleset::mcore_0_20, Ruleset::megatron_lm_0_20, Ruleset::bridge_0_6};

/// All rules, in the stable order of violations.
std::span<const Rule> constraint_table();
const Rule& rule_at(RuleIndex index);
/// Every row with this id (the variants of one rule).
std::vector<RuleIndex> find_rules(std::string_view id);

std::string_view subject_name(Subject subject);
std::string_view action_name(Action action);

/// The source of a rule with its file tags spelt out.
const std::string& rule_source(RuleIndex rule);

/// A short tag of a source file and the path it stands for.
struct SourceFile {
  std::string_view tag;
  std::string_view path;
};
std::span<const SourceFile> source_files();

// The groups of rows, one file each, in the order of the table.
std::span<const Rule> implementation_and_scope_rules();
std::span<const Rule> bridge_script_rules();
std::span<const Rule> random_number_rules();
std::span<const Rule> nan_check_rules();
std::span<const Rule> offloading_rules();
std::span<const Rule> moe_scope_rules();
std::span<const Rule> recompute_rules();
std::span<const Rule> allocator_rules();
std::span<const Rule> delayed_wgrad_rules();
std::span<const Rule> shape_rules();
std::span<const Rule> pipeline_rules();
std::span<const Rule> warmup_rules();
std::span<const Rule> parameter_gather_rules();
std::span<const Rule> low_precision_rules();
std::span<const Rule> inference_rules();
std::span<const Rule> hole_rules();
std::span<const Rule> ambiguity_rules();

}  // namespace cgconform::matrix
