#include "suites/probe_table.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "matrix/constraint_table.hpp"
#include "matrix/rule_protection.hpp"
#include "suites/check.hpp"
#include "suites/selftest_table.hpp"
#include "tests/build_paths.hpp"

namespace cgconform::suites {
namespace {

std::set<std::string> violated_rules(const Probe& probe) {
  matrix::Evaluation evaluation;
  matrix::evaluate(matrix::Ruleset::cgconform, probe.cell->config, probe.cell->platform,
                   evaluation);
  std::set<std::string> rules;
  for (const matrix::RuleIndex rule : evaluation.violations) rules.emplace(matrix::rule_id(rule));
  return rules;
}

TEST(RuleProtection, HoldsRulesOfTheTableOnceAndNoOthers) {
  std::set<std::string_view> seen;
  for (const matrix::UnphysicalRules& row : matrix::unphysical_rules()) {
    for (const std::string_view rule : row.rules) {
      EXPECT_TRUE(seen.insert(rule).second) << rule;
      EXPECT_FALSE(matrix::find_rules(rule).empty()) << rule;
      EXPECT_EQ(matrix::protection_of(rule), row.protection);
    }
  }
}

TEST(ProbeTable, HasARowForExactlyTheRulesThatProtectPhysically) {
  for (const matrix::Rule& rule : matrix::constraint_table()) {
    const bool physical = matrix::protection_of(rule.id) == matrix::Protection::physical;
    EXPECT_EQ(!probes_of(rule.id).empty(), physical) << rule.id;
  }
  std::set<std::string> names;
  for (const Probe& probe : probe_table()) {
    EXPECT_TRUE(names.insert(probe.name()).second) << probe.name();
    EXPECT_FALSE(matrix::find_rules(probe.rule).empty()) << probe.rule;
    EXPECT_FALSE(probe.protects.empty()) << probe.name();
  }
}

TEST(ProbeTable, RunsSomethingOrSaysWhyNot) {
  std::set<std::string> rows;
  for (const SelftestRow& row : selftest_table()) {
    if (row.scenario != nullptr) rows.insert(row.id);
  }
  for (const Probe& probe : probe_table()) {
    const int ways = (probe.cell ? 1 : 0) + (probe.selftest_row.empty() ? 0 : 1) +
                     (probe.not_shown.empty() ? 0 : 1);
    EXPECT_EQ(ways, 1) << probe.name();
    if (!probe.selftest_row.empty()) {
      EXPECT_TRUE(rows.contains(std::string(probe.selftest_row))) << probe.name();
    }
    const bool known = probe.check_id.empty() || find_check(probe.check_id) != nullptr;
    EXPECT_TRUE(known) << probe.name();
    EXPECT_TRUE(!probe.expected || is_bad(*probe.expected)) << probe.name();
  }
}

TEST(ProbeTable, EveryCellIsRefusedByItsRuleOrHasAGuardInTheWorkload) {
  for (const Probe& probe : probe_table()) {
    if (!probe.cell) continue;
    std::set<std::string> lifted(probe.beside.begin(), probe.beside.end());
    for (const std::string& rule : violated_rules(probe)) {
      EXPECT_TRUE(rule == probe.rule || lifted.contains(rule)) << probe.name() << ": " << rule;
    }
    if (refuses_cells(probe.rule) && probe.switches.empty()) {
      EXPECT_TRUE(violated_rules(probe).contains(std::string(probe.rule))) << probe.name();
    }
    for (const workloads::Fault fault : probe.switches) {
      EXPECT_TRUE(workloads::fault_row(fault).applies(*probe.cell)) << probe.name();
    }
  }
}

/// With CGCONFORM_UPDATE_DOCS set the document is written anew.
TEST(ProbeTable, EqualsItsDocument) {
  const std::string path = std::string(CGCONFORM_SOURCE_DIR) + "/docs/probes.md";
  if (std::getenv("CGCONFORM_UPDATE_DOCS") != nullptr) std::ofstream(path) << probes_markdown();
  std::ifstream file(path);
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(document == probes_markdown())
      << path << " differs from the table; run this test with CGCONFORM_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace cgconform::suites
