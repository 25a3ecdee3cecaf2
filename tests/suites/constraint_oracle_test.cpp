#include "suites/constraint_oracle.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "matrix/expansion.hpp"
#include "suites/checks/constraint_cases.hpp"
#include "suites/random_config.hpp"

namespace cgconform::suites {
namespace {

std::vector<std::string_view> engine_violations(const RandomConfig& drawn) {
  auto rules = checks::violated_rules(drawn.config, drawn.platform, {});
  std::sort(rules.begin(), rules.end());
  return rules;
}

/// Per rule, in how many configurations only one side finds it violated, and the first of them.
struct Disagreement {
  std::uint64_t count = 0;
  std::uint64_t first = 0;
};

TEST(ConstraintOracle, AgreesWithTheEngineOnRandomConfigurations) {
  constexpr std::uint64_t configurations = 200000;
  std::map<std::string, Disagreement> disagreements;
  for (std::uint64_t i = 0; i < configurations; ++i) {
    const RandomConfig drawn = random_config(i);
    const auto engine = engine_violations(drawn);
    const auto oracle = oracle_violations(drawn.config, drawn.platform);
    std::vector<std::string_view> differing;
    std::set_symmetric_difference(engine.begin(), engine.end(), oracle.begin(), oracle.end(),
                                  std::back_inserter(differing));
    for (const std::string_view rule : differing) {
      const bool by_engine = std::binary_search(engine.begin(), engine.end(), rule);
      Disagreement& seen = disagreements[fmt::format("{} found by the {} only", rule,
                                                     by_engine ? "engine" : "oracle")];
      if (seen.count++ == 0) seen.first = i;
    }
  }
  for (const auto& [what, seen] : disagreements) {
    ADD_FAILURE() << what << ": " << seen.count << " configurations, first " << seen.first;
  }
}

TEST(ConstraintOracle, AgreesWithTheEngineOnEveryCellOfFull) {
  const matrix::Expansion full(matrix::load_matrix("full"));
  ASSERT_GT(full.size(), 100000U);
  matrix::Cell cell;
  matrix::Coordinates coordinates;
  std::uint64_t differing = 0;
  for (std::uint64_t index = 0; index < full.size(); ++index) {
    full.coordinates(index, coordinates);
    full.fill(coordinates, cell);
    if (engine_violations({cell.config, cell.platform}) ==
        oracle_violations(cell.config, cell.platform)) {
      continue;
    }
    if (differing++ == 0) ADD_FAILURE() << full.name(index).id;
  }
  EXPECT_EQ(differing, 0U);
}

/// A comparison of two rule books says nothing about rules that no configuration breaks or keeps.
TEST(ConstraintOracle, SeesEveryRuleItKnowsBrokenAndKept) {
  constexpr std::uint64_t configurations = 20000;
  std::map<std::string_view, std::uint64_t> broken;
  std::uint64_t legal = 0;
  for (std::uint64_t i = 0; i < configurations; ++i) {
    const RandomConfig drawn = random_config(i);
    const auto rules = oracle_violations(drawn.config, drawn.platform);
    if (rules.empty()) ++legal;
    for (const std::string_view rule : rules) ++broken[rule];
  }
  EXPECT_GT(legal, configurations / 50);
  EXPECT_EQ(broken.size(), 37U);
  for (const auto& [rule, count] : broken) {
    EXPECT_GT(count, 20U) << rule;
    EXPECT_LT(count, configurations - 20) << rule;
  }
}

}  // namespace
}  // namespace cgconform::suites
