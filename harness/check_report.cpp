#include "harness/check_report.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "matrix/constraint_table.hpp"
#include "matrix/enum_names.hpp"
#include "matrix/field_table.hpp"

namespace cgconform::harness {

namespace {

using namespace matrix;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump();
}

/// The parts of the report that are the same for every configuration, rendered once a rule.
struct RuleText {
  std::string violation;
  std::string warning;
  std::string unknown_version;  ///< the warning where the rule's library version is not given
  std::vector<FieldIndex> fields;
};

std::string version_note(const Rule& rule) {
  return fmt::format("{}; it needs {} {}.{}.{} or later, and the version is not given",
                     rule.message, rule.library == Library::torch ? "torch" : "Transformer Engine",
                     rule.at_least.major_number, rule.at_least.minor_number,
                     rule.at_least.patch_number);
}

RuleText render(const Rule& rule, RuleIndex index) {
  RuleText text;
  std::string fields;
  for (std::string_view field : rule.fields) {
    if (field.empty()) continue;
    if (!fields.empty()) fields += ',';
    fields += json_text(field);
    text.fields.push_back(require_field(field));
  }
  text.violation =
      fmt::format(R"({{"rule":{},"layer":{},"message":{},"remedy":{},"fields":[{}],"source":{}}})",
                  json_text(rule.id), json_text(layer_name(rule.layer)), json_text(rule.message),
                  json_text(rule.remedy), fields, json_text(rule_source(index)));
  text.warning =
      fmt::format(R"({{"rule":{},"message":{}}})", json_text(rule.id), json_text(rule.message));
  text.unknown_version = fmt::format(R"({{"rule":{},"message":{}}})", json_text(rule.id),
                                     json_text(version_note(rule)));
  return text;
}

const RuleText& text_of(RuleIndex index) {
  static const std::vector<RuleText> texts = [] {
    std::vector<RuleText> rendered;
    const std::span<const Rule> table = constraint_table();
    for (std::size_t i = 0; i < table.size(); ++i) {
      rendered.push_back(render(table[i], static_cast<RuleIndex>(i)));
    }
    return rendered;
  }();
  return texts[static_cast<std::size_t>(index)];
}

/// The items of a scope in the order Megatron keeps: as written, then what was added.
std::vector<std::string_view> scope_names(CudaGraphScope scope, const ScopeOrder& order) {
  std::vector<std::string_view> names;
  CudaGraphScope rest = scope;
  for (std::uint8_t i = 0; i < order.size; ++i) {
    if (!rest.contains(order.items[i])) continue;
    names.push_back(enum_name(order.items[i]));
    rest.erase(order.items[i]);
  }
  for (const auto& entry : enum_names<CudaGraphModule>()) {
    if (rest.contains(entry.value)) names.push_back(entry.name);
  }
  return names;
}

void append_scope_json(std::string& out, CudaGraphScope scope, const ScopeOrder& order) {
  out += '[';
  const char* separator = "";
  for (std::string_view name : scope_names(scope, order)) {
    fmt::format_to(std::back_inserter(out), "{}\"{}\"", separator, name);
    separator = ",";
  }
  out += ']';
}

/// Absent fields of violated rules and of warnings: their defaults decided them.
FieldSet decisive_defaults(const CheckInput& input, const Evaluation& evaluation) {
  static const auto scope = static_cast<std::size_t>(require_field("cuda_graph_scope"));
  static const auto modules = static_cast<std::size_t>(require_field("cuda_graph_modules"));
  FieldSet given = input.given;
  // Two names of one field.
  if (given.test(scope) || given.test(modules)) given.set(scope).set(modules);
  FieldSet used;
  for (const auto* rules : {&evaluation.violations, &evaluation.warnings}) {
    for (RuleIndex rule : *rules) {
      for (FieldIndex field : text_of(rule).fields) used.set(static_cast<std::size_t>(field));
    }
  }
  return used & ~given;
}

bool is_unknown_version(RuleIndex warning) {
  return rule_at(warning).action == Action::reject;
}

void append_rung_json(std::string& out, const ScopeRung& rung) {
  fmt::format_to(std::back_inserter(out), R"({{"cuda_graph_impl":"{}","cuda_graph_scope":)",
                 enum_name(rung.impl));
  append_scope_json(out, rung.scope, {});
  out += R"(,"violations":[)";
  const char* separator = "";
  for (RuleIndex rule : rung.violations) {
    fmt::format_to(std::back_inserter(out), "{}\"{}\"", separator, rule_id(rule));
    separator = ",";
  }
  out += "]}";
}

/// The last legal rung, or null.
const ScopeRung* widest_rung(const std::vector<ScopeRung>& ladder) {
  const auto found = std::find_if(ladder.rbegin(), ladder.rend(),
                                  [](const ScopeRung& rung) { return rung.violations.empty(); });
  return found == ladder.rend() ? nullptr : &*found;
}

/// The first legal rung that captures more than the configuration does now.
const ScopeRung* next_rung(const std::vector<ScopeRung>& ladder, const TrainingConfig& config) {
  const bool iteration = config.cuda_graph_impl == CudaGraphImpl::full_iteration ||
                         config.cuda_graph_scope.contains(CudaGraphModule::full_iteration);
  const bool graphs = config.cuda_graph_impl != CudaGraphImpl::none;
  if (iteration || (graphs && config.cuda_graph_scope.empty())) return nullptr;
  const CudaGraphScope current = graphs ? config.cuda_graph_scope : CudaGraphScope{};
  for (const ScopeRung& rung : ladder) {
    if (rung.violations.empty() && !rung.scope.is_subset_of(current)) return &rung;
  }
  return nullptr;
}

void append_suggestions_json(std::string& out, const CheckInput& input,
                             const Suggestions& suggestions) {
  out += R"(,"suggestions":[)";
  const char* separator = "";
  for (const Repair& repair : suggestions.repairs) {
    out += separator;
    out += R"({"changes":[)";
    const char* inner = "";
    for (const Change& change : repair.changes) {
      fmt::format_to(std::back_inserter(out), R"({}{{"field":{},"from":{},"to":{}}})", inner,
                     json_text(change.name), change.from, change.to);
      inner = ",";
    }
    out += "]}";
    separator = ",";
  }
  out += R"(],"scope_ladder":[)";
  separator = "";
  for (const ScopeRung& rung : suggestions.ladder) {
    out += separator;
    append_rung_json(out, rung);
    separator = ",";
  }
  out += ']';
  const auto append_named = [&](std::string_view name, const ScopeRung* rung) {
    fmt::format_to(std::back_inserter(out), R"(,"{}":)", name);
    if (rung == nullptr) {
      out += "null";
    } else {
      append_rung_json(out, *rung);
    }
  };
  append_named("widest_scope", widest_rung(suggestions.ladder));
  append_named("next_scope", next_rung(suggestions.ladder, input.config));
}

// --- Text

class Painter {
 public:
  explicit Painter(bool colours) : colours_(colours) {}
  std::string red(std::string_view text) const { return paint("31", text); }
  std::string green(std::string_view text) const { return paint("32", text); }
  std::string yellow(std::string_view text) const { return paint("33", text); }
  std::string bold(std::string_view text) const { return paint("1", text); }

 private:
  std::string paint(std::string_view code, std::string_view text) const {
    return colours_ ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
  }
  bool colours_;
};

std::string rung_text(const ScopeRung& rung) {
  return fmt::format("{} [{}]", enum_name(rung.impl), fmt::join(scope_names(rung.scope, {}), ", "));
}

void append_suggestions_text(std::string& out, const Painter& paint, const CheckInput& input,
                             const Evaluation& evaluation, const Suggestions& suggestions) {
  auto to = std::back_inserter(out);
  if (!evaluation.legal() && suggestions.repairs.empty()) {
    fmt::format_to(to, "  no small set of changes makes it legal\n");
  }
  for (std::size_t i = 0; i < suggestions.repairs.size(); ++i) {
    fmt::format_to(to, "  {}\n", paint.bold(fmt::format("suggestion {}", i + 1)));
    for (const Change& change : suggestions.repairs[i].changes) {
      fmt::format_to(to, "    {}\n    {}\n",
                     paint.red(fmt::format("- {}: {}", change.name, change.from)),
                     paint.green(fmt::format("+ {}: {}", change.name, change.to)));
    }
  }
  fmt::format_to(to, "  {}\n", paint.bold("scopes for this model, narrowest first"));
  for (const ScopeRung& rung : suggestions.ladder) {
    std::vector<std::string_view> ids;
    for (RuleIndex rule : rung.violations) ids.push_back(rule_id(rule));
    fmt::format_to(to, "    {} {}{}{}\n",
                   ids.empty() ? paint.green("legal  ") : paint.red("illegal"), rung_text(rung),
                   ids.empty() ? "" : ": ", fmt::join(ids, ", "));
  }
  if (const ScopeRung* widest = widest_rung(suggestions.ladder)) {
    fmt::format_to(to, "    widest legal scope: {}\n", rung_text(*widest));
  }
  if (const ScopeRung* next = next_rung(suggestions.ladder, input.config)) {
    fmt::format_to(to, "    graph next: {}\n", rung_text(*next));
  }
}

}  // namespace

void append_check_json(std::string& out, const CheckInput& input, const Evaluation& evaluation,
                       const Suggestions* suggestions) {
  out += evaluation.legal() ? R"({"verdict":"legal","violations":[)"
                            : R"({"verdict":"illegal","violations":[)";
  const char* separator = "";
  for (RuleIndex rule : evaluation.violations) {
    out += separator;
    out += text_of(rule).violation;
    separator = ",";
  }
  out += R"(],"warnings":[)";
  separator = "";
  for (RuleIndex rule : evaluation.repairs) {
    out += separator;
    out += text_of(rule).warning;
    separator = ",";
  }
  for (RuleIndex rule : evaluation.warnings) {
    out += separator;
    out += is_unknown_version(rule) ? text_of(rule).unknown_version : text_of(rule).warning;
    separator = ",";
  }
  out += R"(],"normalised":{"cuda_graph_impl":")";
  out += enum_name(evaluation.normalised.cuda_graph_impl);
  out += R"(","cuda_graph_scope":)";
  append_scope_json(out, evaluation.normalised.cuda_graph_scope, input.scope_order);
  out += R"(},"defaults_used":[)";
  separator = "";
  const FieldSet defaults = decisive_defaults(input, evaluation);
  for (std::size_t i = 0; i < field_table().size(); ++i) {
    if (!defaults.test(i)) continue;
    out += separator;
    out += '"';
    out += field_table()[i].name;
    out += '"';
    separator = ",";
  }
  out += ']';
  if (suggestions != nullptr) append_suggestions_json(out, input, *suggestions);
  out += "}\n";
}

void append_check_text(std::string& out, const std::string& source, Ruleset ruleset,
                       const CheckInput& input, const Evaluation& evaluation,
                       const Suggestions* suggestions, bool colours) {
  const Painter paint(colours);
  auto to = std::back_inserter(out);
  const std::string place = input.line == 0 ? source : fmt::format("{}:{}", source, input.line);
  fmt::format_to(to, "{}: {} under {}\n", place,
                 evaluation.legal() ? paint.green("legal") : paint.red("illegal"),
                 ruleset_name(ruleset));
  for (RuleIndex index : evaluation.violations) {
    const Rule& rule = rule_at(index);
    fmt::format_to(to, "  {} {} ({})\n    {}\n    fix: {}\n    otherwise: {}\n    source: {}\n",
                   paint.red("violated"), paint.bold(rule.id), layer_name(rule.layer), rule.message,
                   rule.remedy, rule.consequence, rule_source(index));
  }
  for (RuleIndex index : evaluation.repairs) {
    const Rule& rule = rule_at(index);
    fmt::format_to(to, "  {} {}: {}\n", paint.yellow("normalised"), rule.id, rule.message);
  }
  for (RuleIndex index : evaluation.warnings) {
    const Rule& rule = rule_at(index);
    fmt::format_to(to, "  {} {}: {}\n    fix: {}\n", paint.yellow("warning"), rule.id,
                   is_unknown_version(index) ? version_note(rule) : std::string(rule.message),
                   rule.remedy);
  }
  fmt::format_to(
      to, "  reads as cuda_graph_impl {}, cuda_graph_scope [{}]\n",
      enum_name(evaluation.normalised.cuda_graph_impl),
      fmt::join(scope_names(evaluation.normalised.cuda_graph_scope, input.scope_order), ", "));
  const FieldSet defaults = decisive_defaults(input, evaluation);
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < field_table().size(); ++i) {
    const Field& field = field_table()[i];
    if (defaults.test(i)) {
      shown.push_back(fmt::format("{}={}", field.name, field.write(input.config).dump()));
    }
  }
  if (!shown.empty()) fmt::format_to(to, "  defaults that decided: {}\n", fmt::join(shown, ", "));
  if (suggestions != nullptr) {
    append_suggestions_text(out, paint, input, evaluation, *suggestions);
  }
}

}  // namespace cgconform::harness
