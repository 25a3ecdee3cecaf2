#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/program_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A folder with a program that calls itself compute-sanitizer: it runs the worker and writes `log`
/// for rank 1, and a clean report for the others.
std::string stand_in(const fs::path& folder, const std::string& log) {
  const fs::path program = folder / "compute-sanitizer";
  std::ofstream(folder / "report") << log;
  std::ofstream(program) << "#!/bin/bash\n"
                            "while [[ $1 == --* ]]; do\n"
                            "  [[ $1 != --log-file ]] || log=$2\n"
                            "  shift 2\n"
                            "done\n"
                            "\"$@\"; code=$?\n"
                            "if [[ $log == */rank1.* ]]; then cp "
                         << (folder / "report").string()
                         << " \"$log\"\n"
                            "else printf '========= ERROR SUMMARY: 0 errors\\n' >\"$log\"; fi\n"
                            "exit $code\n";
  fs::permissions(program, fs::perms::owner_all);
  const char* path = std::getenv("PATH");
  return "PATH=" + folder.string() + ":" + (path == nullptr ? "" : path);
}

std::vector<json> run_wrapped(const std::string& log, int& exit_code,
                              const std::string& tool = "memcheck",
                              const std::string& dtype = "fp32") {
  const TemporaryDirectory directory;
  std::vector<std::string> variables = launcher_variables();
  variables.push_back(stand_in(directory.path(), log));
  const fs::path report = directory.path() / "report-folder";
  const fs::path matrix = directory.path() / "wrapped.json";
  std::ofstream(matrix) << json{
      {"name", "wrapped"},
      {"axes",
       {{"impl", {"local"}}, {"scope", {"full_iteration"}}, {"pp", {2}}, {"dtype", {dtype}}}},
      {"tiny", {{"hidden_size", 16}, {"num_attention_heads", 2}, {"seq_length", 8}}},
      {"defaults",
       {{"warmup", 1},
        {"steps", 3},
        {"num_layers", 2},
        {"microbatches", 2},
        {"use_te_rng_tracker", true},
        {"te_rng_tracker", true},
        {"check_for_nan_in_loss", false},
        {"check_for_nan_in_grad", false},
        {"check_for_nan_in_loss_and_grad", false}}}};
  const ProgramEnd end =
      run_program(launch_line(2, {"--matrix", matrix.string(), "--device", "reference", "--filter",
                                  "impl=local", "--wrap", "compute-sanitizer=" + tool, "--report",
                                  report.string()}),
                  variables);
  exit_code = end.exit_code;
  std::vector<json> results;
  std::ifstream file(report / "results.jsonl");
  for (std::string line; std::getline(file, line);) {
    json result = json::parse(line);
    if (!result.at("ranks").empty()) results.push_back(std::move(result));
  }
  EXPECT_FALSE(results.empty()) << end.out << end.err;
  return results;
}

TEST(Wrap, ACleanReportIsACheckThatPassedOnEveryRank) {
  int exit_code = -1;
  for (const json& result : run_wrapped("========= ERROR SUMMARY: 0 errors\n", exit_code)) {
    EXPECT_EQ(result.at("verdict"), "PASS") << result;
    for (const json& rank : result.at("ranks")) {
      EXPECT_EQ(rank.at("checks").back().at("check_id"), "TLG-05");
      EXPECT_EQ(rank.at("checks").back().at("verdict"), "PASS");
    }
  }
  EXPECT_EQ(exit_code, 0);
}

TEST(Wrap, AnInvalidAccessIsAVerdictWithKernelAndRank) {
  int exit_code = -1;
  const std::vector<json> results = run_wrapped(
      "========= Invalid __global__ write of size 4 bytes\n"
      "=========     at cgconform::workloads::cuda::add_rows(float *)+0x60 in rows.cu:41\n"
      "========= \n========= ERROR SUMMARY: 1 error\n",
      exit_code);
  for (const json& result : results) {
    EXPECT_EQ(result.at("verdict"), "FAIL_ILLEGAL_ACCESS");
    EXPECT_EQ(result.at("check_id"), "TLG-05");
    EXPECT_EQ(result.at("failing_rank"), 1);
    EXPECT_THAT(result.at("reason").get<std::string>(), ::testing::HasSubstr("add_rows"));
    EXPECT_THAT(result.at("reproducer").get<std::string>(),
                ::testing::HasSubstr("--wrap compute-sanitizer=memcheck"));
    EXPECT_THAT(result.at("reproducer").get<std::string>(), ::testing::HasSubstr("--timeout 12000"))
        << "the whole cell may take longer too";
  }
  EXPECT_EQ(exit_code, 1);
}

TEST(Wrap, AReadOfWhatNobodyWroteFailsACellUnlessItsWritesAreNotAllSeen) {
  const std::string log =
      "========= COMPUTE-SANITIZER\n"
      "========= Uninitialized __global__ memory read of size 4 bytes\n"
      "=========     at cgconform::workloads::cuda::add_rows(float *)+0x60 in rows.cu:4\n"
      "========= ERROR SUMMARY: 1 error\n";
  for (const auto& [dtype, verdict] :
       {std::pair{"fp32", "FAIL_STALE_ADDRESS"}, std::pair{"bf16", "INCONCLUSIVE_ENV"}}) {
    int exit_code = -1;
    for (const json& result : run_wrapped(log, exit_code, "initcheck", dtype)) {
      EXPECT_EQ(result.at("verdict"), verdict) << dtype;
    }
  }
}

TEST(Wrap, AReportWithoutASummaryIsNoPass) {
  int exit_code = -1;
  for (const json& result : run_wrapped("========= COMPUTE-SANITIZER\n", exit_code)) {
    EXPECT_EQ(result.at("verdict"), "FAIL_SUITE");
  }
}

}  // namespace
}  // namespace cgconform::testing
