#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/program_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* small_iteration = R"({
  "name": "iteration",
  "axes": {"impl": ["local"], "scope": ["full_iteration"], "recompute": ["none", "core_attn"]},
  "defaults": {"num_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 8,
               "warmup": 1, "use_te_rng_tracker": true, "te_rng_tracker": true,
               "check_for_nan_in_loss": CHECKED, "check_for_nan_in_grad": false,
               "check_for_nan_in_loss_and_grad": CHECKED}})";

/// Runs the cells of a small captured iteration, whose loss the host checks or not.
ProgramEnd run_iteration(const TemporaryDirectory& directory, bool checked,
                         const std::string& lifted) {
  std::string text = small_iteration;
  for (std::size_t at = 0; (at = text.find("CHECKED")) != std::string::npos;) {
    text.replace(at, 7, checked ? "true" : "false");
  }
  const auto matrix = directory.path() / "iteration.json";
  std::ofstream(matrix) << text;
  return run_cgconform({"--matrix", matrix.string(), "--device", "reference", "--lift", lifted,
                        "--filter", checked ? "recompute=none" : "recompute=core_attn", "--report",
                        (directory.path() / "report").string()});
}

nlohmann::json only_result(const TemporaryDirectory& directory) {
  std::ifstream file(directory.path() / "report" / "results.jsonl");
  nlohmann::json found;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json result = nlohmann::json::parse(line);
    if (result.contains("lifted")) found = result;
  }
  return found;
}

TEST(LiftedGuard, LetsTheRefusedCellRunAndFailOfWhatTheRuleSays) {
  const TemporaryDirectory directory;
  const ProgramEnd end = run_iteration(directory, true, "full-iter-nan-check");
  EXPECT_EQ(end.exit_code, 1) << end.out << end.err;
  const nlohmann::json result = only_result(directory);
  EXPECT_EQ(result.at("verdict"), "FAIL_CAPTURE") << result.dump(2);
  EXPECT_EQ(result.at("lifted"), nlohmann::json::array({"full-iter-nan-check"}));
  EXPECT_THAT(result.at("reason").get<std::string>(), HasSubstr("full-iter-nan-check"));
  EXPECT_THAT(result.at("reproducer").get<std::string>(), HasSubstr("--lift full-iter-nan-check"));
}

TEST(LiftedGuard, NeverCountsAsConformantWhereNothingHappens) {
  const TemporaryDirectory directory;
  const ProgramEnd end = run_iteration(directory, false, "graphed-recompute-attn-dropout");
  EXPECT_EQ(end.exit_code, 8) << end.out << end.err;
  const nlohmann::json result = only_result(directory);
  EXPECT_EQ(result.at("verdict"), "GUARD_LIFTED") << result.dump(2);
  EXPECT_EQ(result.at("lifted"), nlohmann::json::array({"graphed-recompute-attn-dropout"}));
}

TEST(Probe, PrintsTheTableOfGuardsAndWritesIt) {
  const TemporaryDirectory directory;
  const auto report = directory.path() / "report";
  const ProgramEnd end = run_cgconform({"probe", "--only", "full-iter-nan-check", "--only",
                                        "rng-te-tracker-required/local", "--only", "uvm-expandable",
                                        "--device", "reference", "--report", report.string()});
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr("FAIL_CAPTURE by LIF-01"));
  EXPECT_THAT(end.out, HasSubstr("FAIL_RNG_STATE by NUM-08"));
  EXPECT_THAT(end.out, HasSubstr("2 guards still needed, 1 without effect, 1 not shown"));
  std::ifstream file(report / "probes.json");
  const nlohmann::json document = nlohmann::json::parse(file);
  EXPECT_EQ(document.at("probes").size(), 4U);
}

}  // namespace
}  // namespace cgconform::testing
