#include "harness/lift.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/switch_names.hpp"
#include "matrix/constraint_table.hpp"
#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"
#include "matrix/rule_protection.hpp"
#include "suites/cell_plan.hpp"
#include "suites/probe_table.hpp"

namespace cgconform::harness {
namespace {

bool can_be_lifted(std::string_view rule) {
  return suites::refuses_cells(rule) || !suites::switches_of(rule).empty();
}

std::vector<std::string_view> liftable_rules() {
  std::vector<std::string_view> rules;
  for (const suites::Probe& probe : suites::probe_table()) {
    const bool known = std::find(rules.begin(), rules.end(), probe.rule) != rules.end();
    if (!known && can_be_lifted(probe.rule)) rules.push_back(probe.rule);
  }
  return rules;
}

void require_liftable(const std::string& rule) {
  const auto refuse = [&](const std::string& reason) {
    throw InputError(
        fmt::format("--lift {}: {}{}", rule, reason, matrix::nearest_hint(rule, liftable_rules())));
  };
  if (matrix::find_rules(rule).empty()) refuse("no such rule");
  const matrix::Protection protection = matrix::protection_of(rule);
  if (protection != matrix::Protection::physical) {
    refuse(fmt::format("the rule protects against nothing physical: {}",
                       matrix::protection_text(protection)));
  }
  if (can_be_lifted(rule)) return;
  const auto probes = suites::probes_of(rule);
  refuse(
      fmt::format("nothing here to lift: {}", probes.empty() || probes.front()->not_shown.empty()
                                                  ? "a scenario of `cgconform probe` shows the rule"
                                                  : probes.front()->not_shown));
}

std::vector<workloads::Fault> applying_switches(const std::string& rule, const matrix::Cell& cell) {
  std::vector<workloads::Fault> switches = suites::switches_of(rule);
  std::erase_if(switches, [&](workloads::Fault fault) {
    return !suites::is_graph_cell(cell) || !workloads::fault_row(fault).applies(cell);
  });
  return switches;
}

}  // namespace

std::vector<std::string> parse_lifts(const std::vector<std::string>& given) {
  std::vector<std::string> rules;
  for (const std::string& list : given) {
    std::size_t begin = 0;
    while (begin <= list.size()) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      const std::string rule = list.substr(begin, end - begin);
      require_liftable(rule);
      if (std::find(rules.begin(), rules.end(), rule) == rules.end()) rules.push_back(rule);
      begin = end + 1;
    }
  }
  return rules;
}

std::vector<std::string> lifted_in_workload(const std::vector<std::string>& rules,
                                            const matrix::Cell& cell) {
  std::vector<std::string> lifted;
  for (const std::string& rule : rules) {
    if (!applying_switches(rule, cell).empty()) lifted.push_back(rule);
  }
  return lifted;
}

std::vector<std::string> lifted_switches(const std::vector<std::string>& rules,
                                         const matrix::Cell& cell) {
  std::vector<std::string> ids;
  for (const std::string& rule : rules) {
    for (const workloads::Fault fault : applying_switches(rule, cell)) {
      ids.emplace_back(fault_id(fault));
    }
  }
  return ids;
}

void mark_lifted(suites::CellResult& result, const std::vector<std::string>& rules) {
  if (rules.empty()) return;
  result.lifted = rules;
  const bool good = suites::verdict_class(result.verdict) == suites::VerdictClass::good;
  if (good) result.verdict = suites::Verdict::guard_lifted;
  result.reason = fmt::format("guard lifted: {}: {}", fmt::join(rules, ", "),
                              good ? "nothing happened" : result.reason);
}

}  // namespace cgconform::harness
