#include "matrix/constraint_document.hpp"

#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "matrix/constraint_table.hpp"
#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"
#include "matrix/quoted_word.hpp"

namespace cgconform::matrix {

namespace {

std::string rulesets_of(const Rule& rule) {
  std::vector<std::string_view> names;
  for (Ruleset ruleset : all_rulesets()) {
    if (rule.rulesets.contains(ruleset)) names.push_back(ruleset_name(ruleset));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string fields_of(const Rule& rule, std::string_view quote) {
  std::string text;
  for (std::string_view field : rule.fields) {
    if (field.empty()) continue;
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", quote, field, quote);
  }
  return text;
}

std::string enforced_by(const Rule& rule) {
  if (rule.action == Action::behaviour) return "nothing to check";
  return rule.decidable() ? "cgconform check" : "met while graphs are built or replayed";
}

/// A vertical bar would end the cell of a table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

void append_group(std::string& text, Subject subject) {
  fmt::format_to(std::back_inserter(text), "\n## {}\n\n", subject_name(subject));
  text +=
      "| rule | what must hold | rulesets | layer | action | remedy | what breaks otherwise | "
      "decided by | source |\n|---|---|---|---|---|---|---|---|---|\n";
  const std::span<const Rule> table = constraint_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Rule& rule = table[i];
    if (rule.subject != subject) continue;
    fmt::format_to(std::back_inserter(text), "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                   rule.id, cell(rule.statement), rulesets_of(rule), layer_name(rule.layer),
                   action_name(rule.action), cell(rule.remedy), cell(rule.consequence),
                   enforced_by(rule), cell(rule_source(static_cast<RuleIndex>(i))));
  }
}

}  // namespace

std::string explain_rule(std::string_view id) {
  const std::vector<RuleIndex> rows = find_rules(id);
  if (rows.empty()) {
    std::vector<std::string_view> known;
    for (const Rule& rule : constraint_table()) known.push_back(rule.id);
    std::string_view nearest = nearest_name(id.substr(0, longest_quoted_word), known);
    if (nearest.empty()) nearest = known.front();
    throw InputError(
        fmt::format("{} is not a rule; the nearest is '{}'. `cgconform explain "
                    "--all=markdown` lists them",
                    quoted_word(id), nearest));
  }
  std::string text;
  for (RuleIndex index : rows) {
    const Rule& rule = rule_at(index);
    fmt::format_to(std::back_inserter(text),
                   "{}{}\n"
                   "  subject   {}\n"
                   "  rulesets  {}\n"
                   "  layer     {}\n"
                   "  action    {}\n"
                   "  rule      {}\n"
                   "  message   {}\n"
                   "  remedy    {}\n"
                   "  otherwise {}\n"
                   "  fields    {}\n"
                   "  decided   {}\n"
                   "  source    {}\n",
                   text.empty() ? "" : "\n", rule.id, subject_name(rule.subject), rulesets_of(rule),
                   layer_name(rule.layer), action_name(rule.action), rule.statement, rule.message,
                   rule.remedy, rule.consequence, fields_of(rule, ""), enforced_by(rule),
                   rule_source(index));
  }
  return text;
}

std::string explain_all_as_markdown() {
  std::string text =
      "# Constraints\n\n"
      "Every rule that `cgconform check` knows, by the subject it guards. "
      "`cgconform explain --all=markdown` prints this page.\n\n"
      "A rule belongs to one or more rulesets: `seed` (the default), `cgconform` (which classifies "
      "the cells of a matrix), `mcore-0.17`, `mcore-0.20`, `megatron-lm-0.20` and `bridge-0.6`. "
      "Its "
      "layer says where a framework enforces it: the configuration class (`config`), argument "
      "validation (`args`), Megatron-Bridge (`bridge`), or an assertion met while graphs are built "
      "(`build`) or replayed (`replay`); `--layers` narrows a check to some of them. Its action "
      "says "
      "what happens: `reject`, `warn`, `auto-fix` (the framework changes the configuration "
      "silently), or `behaviour` (a statement of what the code does). A rule that needs a version "
      "of a library is a warning where the version is not given.\n";
  for (int i = 0; i <= static_cast<int>(Subject::ambiguities); ++i) {
    append_group(text, static_cast<Subject>(i));
  }
  return text;
}

}  // namespace cgconform::matrix
