#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/build_paths.hpp"
#include "tests/program_run.hpp"

namespace cgconform {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output;  ///< standard output and error together
};

/// Runs the built program through the shell; `arguments` are shell words.
Outcome run(const std::string& arguments, const std::string& environment = "") {
  const testing::ProgramEnd end = testing::run_program(
      {"/bin/sh", "-c",
       fmt::format("{} '{}' {} 2>&1", environment, testing::cgconform_program(), arguments)});
  return {end.exit_code, end.out};
}

class CheckCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("check_{}", test->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path) << text;
    return path.string();
  }

  static std::vector<nlohmann::json> json_lines(const std::string& output) {
    std::vector<nlohmann::json> lines;
    std::istringstream stream(output);
    for (std::string line; std::getline(stream, line);)
      lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  static std::vector<std::string> rules_of(const nlohmann::json& list) {
    std::vector<std::string> rules;
    for (const auto& entry : list) rules.push_back(entry.at("rule"));
    return rules;
  }

 private:
  std::filesystem::path folder_;
};

constexpr const char* legal =
    R"({"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": ["attn"],
        "use_te_rng_tracker": true, "te_rng_tracker": true})";
constexpr const char* illegal =
    R"({"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": ["moe", "moe_router"]})";

TEST_F(CheckCommand, EndsWithZeroForLegalAndOneForIllegalConfigurations) {
  EXPECT_EQ(run("check " + file("a.json", legal)).exit_code, 0);
  const Outcome outcome = run("check " + file("b.json", illegal));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("moe-xor-router"));
  EXPECT_THAT(outcome.output, HasSubstr("rng-te-tracker-required"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("\033["))) << "colours on a pipe";
}

TEST_F(CheckCommand, EndsWithTwoForUnusableInputAndNamesThePlace) {
  const Outcome unknown = run("check " + file("a.json", "{\n \"cuda_graph_imp\": \"local\"}"));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("a.json:2:2: 'cuda_graph_imp'"));
  EXPECT_THAT(unknown.output, HasSubstr("cuda_graph_impl"));
  EXPECT_EQ(run("check /no/such/file").exit_code, 2);
  EXPECT_EQ(run("check").exit_code, 2);
  EXPECT_EQ(run("check --ruleset sed " + file("b.json", legal)).exit_code, 2);
  EXPECT_EQ(run("check --layers confg " + file("b.json", legal)).exit_code, 2);
  EXPECT_EQ(run("check --allow-unknown " + file("c.json", R"({"made_up": 1})")).exit_code, 0);
}

TEST_F(CheckCommand, WritesOneJsonLineForEachInputInOrder) {
  const std::string path = file("a.jsonl", fmt::format("{}\n{}\n{}\n", legal, illegal, legal));
  const Outcome outcome = run("check --json " + path);
  EXPECT_EQ(outcome.exit_code, 1);
  const std::vector<nlohmann::json> lines = json_lines(outcome.output);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].at("verdict"), "legal");
  EXPECT_EQ(lines[1].at("verdict"), "illegal");
  EXPECT_EQ(lines[2].at("verdict"), "legal");
  EXPECT_THAT(rules_of(lines[1].at("violations")), Contains("moe-xor-router"));
  for (const auto& violation : lines[1].at("violations")) {
    for (const char* key : {"rule", "layer", "message", "remedy", "fields", "source"}) {
      EXPECT_TRUE(violation.contains(key)) << key;
    }
  }
  EXPECT_EQ(lines[0].at("normalised"), (nlohmann::json{{"cuda_graph_impl", "transformer_engine"},
                                                       {"cuda_graph_scope", {"attn"}}}));
}

TEST_F(CheckCommand, NamesTheDefaultsThatDecided) {
  const std::string path =
      file("a.json", R"({"cuda_graph_impl": "local", "cuda_graph_scope": ["attn"],
                    "recompute_granularity": "selective"})");
  const auto lines = json_lines(run("check --json --ruleset mcore-0.20 " + path).output);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].at("defaults_used"),
            (nlohmann::json{"use_te_rng_tracker", "recompute_modules", "attention_dropout",
                            "transformer_impl", "sequence_parallel"}));
}

TEST_F(CheckCommand, ReportsNormalisationsAndKeepsTheOrderOfTheScope) {
  const std::string path = file("a.json", R"({"cuda_graph_impl": "local",
      "cuda_graph_scope": ["moe_preprocess", "attn"], "num_moe_experts": 4})");
  const auto lines =
      json_lines(run("check --json --ruleset mcore-0.20 --layers config " + path).output);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(rules_of(lines[0].at("warnings")), Contains("local-router-preprocess-pair"));
  EXPECT_EQ(lines[0].at("normalised").at("cuda_graph_scope"),
            (nlohmann::json{"moe_preprocess", "attn", "moe_router"}));
}

TEST_F(CheckCommand, ReadsStandardInputYamlAndArguments) {
  EXPECT_EQ(run("check - < " + file("a.json", legal)).exit_code, 0);
  const std::string yaml =
      "model:\n  cuda_graph_impl: local\n  cuda_graph_scope: [full_iteration]\n"
      "  use_te_rng_tracker: true\nrng: {te_rng_tracker: true}\n";
  const Outcome container = run("check --ruleset bridge-0.6 " + file("a.yaml", yaml));
  EXPECT_EQ(container.exit_code, 1);
  EXPECT_THAT(container.output, HasSubstr("full-iter-nan-check"));
  EXPECT_EQ(run("check -- --enable-cuda-graph --cuda-graph-scope full_iteration --te-rng-tracker "
                "--no-check-for-nan-in-loss-and-grad")
                .exit_code,
            0);
  EXPECT_EQ(run("check -- --cuda_graph_impl transformer_engine --cuda_graph_scope attn").exit_code,
            0)
      << "the performance script sets the RNG trackers";
}

TEST_F(CheckCommand, TakesTheEnvironmentOfThisProcessWhenAsked) {
  const std::string path = file("a.json", legal);
  const std::string expandable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  EXPECT_EQ(run("check " + path, expandable).exit_code, 0);
  const Outcome outcome = run("check --env current " + path, expandable);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("expandable-segments-te"));
  EXPECT_EQ(run("check --env current " + path, expandable + " NCCL_GRAPH_REGISTER=0").exit_code, 0);
}

TEST_F(CheckCommand, SuggestsTheSmallestChangeAndTheWidestScope) {
  const std::string path = file("a.json", R"({"cuda_graph_impl": "local",
      "cuda_graph_scope": ["full_iteration"], "use_te_rng_tracker": true, "te_rng_tracker": true})");
  const auto lines = json_lines(run("check --json --suggest " + path).output);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(
      lines[0].at("suggestions").at(0).at("changes"),
      nlohmann::json::parse(R"([{"field": "check_for_nan_in_loss", "from": true, "to": false}])"));
  EXPECT_EQ(lines[0].at("widest_scope").at("cuda_graph_scope"), (nlohmann::json{"attn", "mlp"}));
}

TEST(ExplainCommand, PrintsARuleAndTheWholeTable) {
  const Outcome rule = run("explain moe-xor-router");
  EXPECT_EQ(rule.exit_code, 0);
  EXPECT_THAT(rule.output, HasSubstr("core/transformer/transformer_config.py:2817-2820"));
  const Outcome table = run("explain --all=markdown");
  EXPECT_EQ(table.exit_code, 0);
  std::ifstream document(fmt::format("{}/docs/constraints.md", CGCONFORM_SOURCE_DIR));
  std::stringstream text;
  text << document.rdbuf();
  EXPECT_EQ(table.output, text.str());
  const Outcome unknown = run("explain moe-xor-ruter");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("'moe-xor-router'"));
}

}  // namespace
}  // namespace cgconform
