#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "matrix/constraint_engine.hpp"
#include "matrix/constraint_table.hpp"
#include "matrix/enum_names.hpp"
#include "matrix/training_config_json.hpp"
#include "tests/build_paths.hpp"

namespace cgconform::matrix {
namespace {

/// What the reference implementation's own validation said of configurations that have `num_layers`
/// 4, hidden size 64, 4 heads and bf16 in common.
struct TruthTable {
  Ruleset ruleset;
  const char* file;
};

std::vector<std::string> sorted_scope(const nlohmann::json& list) {
  auto names = list.get<std::vector<std::string>>();
  std::sort(names.begin(), names.end());
  return names;
}

/// Replays one table; returns the number of rows.
int expect_agreement(Ruleset ruleset, const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  int rows = 0;
  std::string line;
  Evaluation evaluation;
  while (std::getline(file, line)) {
    ++rows;
    const nlohmann::json row = nlohmann::json::parse(line);
    TrainingConfig config = training_config_from_json(row.at("config"));
    config.bf16 = true;
    evaluate(ruleset, {Layer::config}, config, PlatformSettings{}, evaluation);

    std::vector<std::string_view> ids;
    for (RuleIndex rule : evaluation.violations) ids.push_back(rule_id(rule));
    EXPECT_EQ(evaluation.legal(), row.at("verdict") == "legal")
        << path << ':' << rows << ": " << line
        << "\nviolated: " << fmt::format("{}", fmt::join(ids, " "));
    if (row.contains("first_rule")) {
      const auto first = row.at("first_rule").get<std::string>();
      EXPECT_NE(std::find(ids.begin(), ids.end(), first), ids.end())
          << path << ':' << rows << ": " << line
          << "\nviolated: " << fmt::format("{}", fmt::join(ids, " "));
    }
    if (row.contains("normalised_impl")) {
      EXPECT_EQ(enum_name(evaluation.normalised.cuda_graph_impl),
                row.at("normalised_impl").get<std::string>())
          << path << ':' << rows << ": " << line;
      const nlohmann::json normalised = training_config_to_json(evaluation.normalised);
      EXPECT_EQ(sorted_scope(normalised.at("cuda_graph_scope")),
                sorted_scope(row.at("normalised_scope")))
          << path << ':' << rows << ": " << line;
    }
  }
  return rows;
}

constexpr TruthTable tables[] = {{Ruleset::mcore_0_17, "mcore-0.17.jsonl"},
                                 {Ruleset::mcore_0_20, "mcore-0.20.jsonl"}};

TEST(TruthTable, CommittedSampleAgreesWithMegatronCore) {
  for (const TruthTable& table : tables) {
    const std::string path =
        fmt::format("{}/tests/data/truth/{}", CGCONFORM_SOURCE_DIR, table.file);
    EXPECT_GE(expect_agreement(table.ruleset, path), 200) << path;
  }
}

TEST(TruthTable, WholeTablesAgreeWithMegatronCore) {
  const char* folder = std::getenv("CGCONFORM_TRUTH_DIR");
  if (folder == nullptr) GTEST_SKIP() << "CGCONFORM_TRUTH_DIR does not name a folder of tables";
  for (const TruthTable& table : tables) {
    EXPECT_GT(expect_agreement(table.ruleset, fmt::format("{}/{}", folder, table.file)), 0);
  }
}

}  // namespace
}  // namespace cgconform::matrix
