#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "matrix/constraint_engine.hpp"
#include "matrix/constraint_table.hpp"
#include "matrix/input.hpp"
#include "tests/build_paths.hpp"

namespace cgconform::matrix {
namespace {

/// tests/data/rule_cases.jsonl: a configuration that breaks a rule, and a neighbour that keeps it,
/// written as what differs. Without `rulesets` a case is for every ruleset of the rule.
std::vector<nlohmann::json> rule_cases() {
  std::ifstream file(fmt::format("{}/tests/data/rule_cases.jsonl", CGCONFORM_SOURCE_DIR));
  std::vector<nlohmann::json> cases;
  std::string line;
  while (std::getline(file, line)) cases.push_back(nlohmann::json::parse(line));
  return cases;
}

CheckInput read_config(Ruleset ruleset, const nlohmann::json& config,
                       const nlohmann::json& environment) {
  InputOptions options;
  options.ruleset = ruleset;
  std::istringstream stream(
      nlohmann::json{{"config", config}, {"environment", environment}}.dump());
  CheckInput read;
  read_json_inputs(stream, "case", options, [&](const CheckInput& input) { read = input; });
  return read;
}

CheckInput read_arguments(Ruleset ruleset, const nlohmann::json& arguments) {
  InputOptions options;
  options.ruleset = ruleset;
  return read_argument_input(arguments.get<std::vector<std::string>>(), options);
}

/// Ids of every rule that was broken, applied or flagged.
std::set<std::string> reported(Ruleset ruleset, const CheckInput& input) {
  Evaluation evaluation;
  evaluate(ruleset, input.config, input.platform, evaluation);
  std::set<std::string> ids;
  for (const auto* list : {&evaluation.violations, &evaluation.warnings, &evaluation.repairs}) {
    for (RuleIndex rule : *list) ids.emplace(rule_id(rule));
  }
  return ids;
}

Rulesets rulesets_of_rule(std::string_view id) {
  Rulesets rulesets;
  for (RuleIndex row : find_rules(id)) {
    if (rule_at(row).decidable()) rulesets = rulesets | rule_at(row).rulesets;
  }
  return rulesets;
}

std::vector<Ruleset> rulesets_of_case(const nlohmann::json& rule_case) {
  std::vector<Ruleset> rulesets;
  if (rule_case.contains("rulesets")) {
    for (const auto& name : rule_case.at("rulesets")) {
      const std::optional<Ruleset> ruleset = find_ruleset(name.get<std::string>());
      EXPECT_TRUE(ruleset.has_value()) << name;
      if (ruleset) rulesets.push_back(*ruleset);
    }
    return rulesets;
  }
  for (Ruleset ruleset : all_rulesets()) {
    if (rulesets_of_rule(rule_case.at("rule").get<std::string>()).contains(ruleset)) {
      rulesets.push_back(ruleset);
    }
  }
  return rulesets;
}

TEST(RuleCases, BreakTheirRuleAndTheirNeighbourKeepsIt) {
  for (const nlohmann::json& rule_case : rule_cases()) {
    const auto rule = rule_case.at("rule").get<std::string>();
    for (Ruleset ruleset : rulesets_of_case(rule_case)) {
      CheckInput breaks;
      CheckInput keeps;
      if (rule_case.contains("breaks_arguments")) {
        breaks = read_arguments(ruleset, rule_case.at("breaks_arguments"));
        keeps = read_arguments(ruleset, rule_case.at("keeps_arguments"));
      } else {
        const nlohmann::json environment = rule_case.value("environment", nlohmann::json::object());
        nlohmann::json neighbour = rule_case.at("breaks");
        neighbour.merge_patch(rule_case.at("keeps"));
        breaks = read_config(ruleset, rule_case.at("breaks"), environment);
        keeps = read_config(ruleset, neighbour, rule_case.value("keeps_environment", environment));
      }
      EXPECT_TRUE(reported(ruleset, breaks).contains(rule))
          << ruleset_name(ruleset) << ": " << rule_case;
      EXPECT_FALSE(reported(ruleset, keeps).contains(rule))
          << ruleset_name(ruleset) << ": " << rule_case;
    }
  }
}

TEST(RuleCases, CoverEveryDecidableRuleInEveryRuleset) {
  std::set<std::pair<std::string, Ruleset>> covered;
  for (const nlohmann::json& rule_case : rule_cases()) {
    for (Ruleset ruleset : rulesets_of_case(rule_case)) {
      covered.emplace(rule_case.at("rule").get<std::string>(), ruleset);
    }
  }
  for (const Rule& rule : constraint_table()) {
    for (Ruleset ruleset : all_rulesets()) {
      if (!rule.decidable() || !rule.rulesets.contains(ruleset)) continue;
      EXPECT_TRUE(covered.contains({std::string(rule.id), ruleset}))
          << rule.id << " has no case under " << ruleset_name(ruleset);
    }
  }
}

}  // namespace
}  // namespace cgconform::matrix
