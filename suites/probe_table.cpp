#include "suites/probe_table.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "matrix/constraint_table.hpp"
#include "matrix/rule_protection.hpp"
#include "suites/probe_rows.hpp"

namespace cgconform::suites {
namespace {

std::vector<Probe> collect() {
  std::vector<Probe> rows;
  for (const auto group : {memory_probes, configuration_probes, graph_probes, moe_probes}) {
    for (Probe& row : group()) rows.push_back(std::move(row));
  }
  return rows;
}

std::string expectation_text(const Probe& probe) {
  if (!probe.not_shown.empty()) return fmt::format("not shown: {}", probe.not_shown);
  if (!probe.expected) return "nothing";
  std::string text = fmt::format("`{}`", verdict_name(*probe.expected));
  if (!probe.check_id.empty()) text += fmt::format(" by {}", probe.check_id);
  return text;
}

std::string lifted_text(const Probe& probe) {
  std::string text = refuses_cells(probe.rule) && probe.switches.empty() ? "the rule" : "";
  for (const workloads::Fault fault : probe.switches) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", workloads::fault_row(fault).injection);
  }
  if (!probe.selftest_row.empty()) text = fmt::format("scenario {}", probe.selftest_row);
  return text;
}

}  // namespace

std::string Probe::name() const {
  return variant.empty() ? std::string(rule) : fmt::format("{}/{}", rule, variant);
}

std::span<const Probe> probe_table() {
  static const std::vector<Probe> rows = collect();
  return rows;
}

std::vector<const Probe*> probes_of(std::string_view rule) {
  std::vector<const Probe*> rows;
  for (const Probe& row : probe_table()) {
    if (row.rule == rule) rows.push_back(&row);
  }
  return rows;
}

std::string why_not_shown(const Probe& probe, matrix::TargetDevice device) {
  if (!probe.not_shown.empty()) return std::string(probe.not_shown);
  if (probe.cell) {
    if (const matrix::Feature* feature = matrix::missing_feature(*probe.cell, device)) {
      return fmt::format("not built yet: {}", feature->name);
    }
  }
  if (probe.needs == ProbeNeeds::cuda && device != matrix::TargetDevice::cuda) {
    return "needs device cuda";
  }
  return {};
}

bool refuses_cells(std::string_view rule) {
  const auto rows = matrix::find_rules(rule);
  return std::any_of(rows.begin(), rows.end(), [](matrix::RuleIndex index) {
    const matrix::Rule& row = matrix::rule_at(index);
    return row.action == matrix::Action::reject && row.decidable() &&
           row.rulesets.contains(matrix::Ruleset::cgconform);
  });
}

std::vector<workloads::Fault> switches_of(std::string_view rule) {
  std::set<workloads::Fault> switches;
  for (const Probe* probe : probes_of(rule)) {
    switches.insert(probe->switches.begin(), probe->switches.end());
  }
  return {switches.begin(), switches.end()};
}

std::string probes_markdown() {
  std::string text =
      "# Probes\n\n"
      "For every rule of the constraint table that protects against a failure of running work: "
      "what "
      "`cgconform probe` runs with the rule's guard lifted, and what is expected to come out on "
      "the reference device. Made from `suites/probe_table.hpp`; write it anew by running "
      "`suites_tests` with `CGCONFORM_UPDATE_DOCS=1`.\n\n"
      "| probe | protects against | lifted | expected |\n|---|---|---|---|\n";
  for (const Probe& probe : probe_table()) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", probe.name(), probe.protects,
                        lifted_text(probe), expectation_text(probe));
  }
  text +=
      "\nAll other rules protect against nothing physical and cannot be lifted:\n\n"
      "| rules | because |\n|---|---|\n";
  for (const matrix::UnphysicalRules& row : matrix::unphysical_rules()) {
    std::string rules;
    for (const std::string_view rule : row.rules) {
      rules += fmt::format("{}`{}`", rules.empty() ? "" : ", ", rule);
    }
    text += fmt::format("| {} | {} |\n", rules, matrix::protection_text(row.protection));
  }
  return text;
}

}  // namespace cgconform::suites
