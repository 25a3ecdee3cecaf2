#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tests/mpi/run_watch.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

using nlohmann::json;

/// Everything that is wrong with the verdicts of a run in which one worker was killed.
void expect_one_crash_at_most(const std::vector<json>& results, std::size_t cells) {
  EXPECT_EQ(results.size(), cells);
  std::size_t crashes = 0;
  for (const json& result : results) {
    if (result.at("verdict") == "PASS") continue;
    ++crashes;
    EXPECT_EQ(result.at("verdict"), "CRASH") << result;
    bool seen = false;
    for (const json& rank : result.at("ranks")) {
      if (!rank.contains("abnormal_end")) continue;
      const json& end = rank.at("abnormal_end");
      if (end.at("signal") != SIGKILL || end.at("ended_by_peer") == true) continue;
      seen = true;
      EXPECT_EQ(rank.at("world_rank"), result.at("failing_rank"));
      EXPECT_FALSE(end.at("phase").get<std::string>().empty());
    }
    EXPECT_TRUE(seen) << result;
  }
  EXPECT_LE(crashes, 1U);
}

TEST(Isolation, AKilledWorkerCostsItsOwnCellAndLeavesNoProcess) {
  constexpr int kills = 10;
  constexpr std::size_t cells = 24;
  std::mt19937_64 random(20260101);
  std::size_t crashes = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const TemporaryDirectory directory;
    const std::string mark = run_mark();
    StartedProgram program(
        launch_line(4, {"--mock",
                        R"([{"ranks":2,"behaviour":"slow","milliseconds":40,"count":12},
                            {"ranks":4,"behaviour":"slow","milliseconds":40,"count":6},
                            {"ranks":1,"behaviour":"slow","milliseconds":40,"count":6}])",
                        "--report", (directory.path() / "report").string()}),
        marked_variables(mark));
    std::vector<pid_t> workers;
    ASSERT_TRUE(eventually([&] {
      workers = programs_of(mark, "cgconform-worker");
      return workers.size() == 4;
    }));
    // From the first verdict on the moment is random; nothing waits for it.
    const auto results_file = directory.path() / "report" / "results.jsonl";
    ASSERT_TRUE(eventually([&] {
      std::error_code none_yet;
      const auto bytes = std::filesystem::file_size(results_file, none_yet);
      return !none_yet && bytes > 0;
    }));
    ::usleep(static_cast<useconds_t>(random() % 400000));
    ::kill(workers[random() % workers.size()], SIGKILL);
    const ProgramEnd end = program.finish(std::chrono::seconds{120});
    const std::vector<json> results = results_in(directory.path() / "report");
    expect_one_crash_at_most(results, cells);
    bool crashed = false;
    for (const json& result : results) crashed = crashed || result.at("verdict") == "CRASH";
    EXPECT_EQ(end.exit_code, crashed ? 1 : 0) << end.out << end.err;
    if (crashed) ++crashes;
    EXPECT_TRUE(eventually([&] { return processes_with(mark).empty(); }));
  }
  EXPECT_GT(crashes, 0U);
}

/// Seconds from the start of a first cell that fails to the verdict of the next one.
double seconds_to_the_next_cell(const std::string& plan) {
  const TemporaryDirectory directory;
  const auto journal = directory.path() / "report" / "journal.jsonl";
  StartedProgram program(
      launch_line(4, {"--deadline-scale", "0.01", "--isolation", "cell", "--mock", plan, "--report",
                      (directory.path() / "report").string()}),
      launcher_variables());
  const auto lines = [&] {
    const std::string text = read_file(journal);
    return std::count(text.begin(), text.end(), '\n');
  };
  using Clock = std::chrono::steady_clock;
  EXPECT_TRUE(eventually([&] { return lines() >= 2; }));
  const auto failed = Clock::now();
  EXPECT_TRUE(eventually([&] { return lines() >= 3; }));
  const std::chrono::duration<double> gap = Clock::now() - failed;
  program.finish(std::chrono::seconds{60});
  const std::vector<json> results = results_in(directory.path() / "report");
  return results.at(0).at("seconds").get<double>() + gap.count();
}

TEST(Isolation, TheNextCellRunsWithinTwoSecondsOfACrash) {
  EXPECT_LT(seconds_to_the_next_cell(R"([{"ranks":4,"behaviour":"segfault"},{"ranks":4}])"), 2.0);
}

TEST(Isolation, TheNextCellRunsWithinFiveSecondsOfADeadline) {
  constexpr double deadline = 0.6;
  const double seconds =
      seconds_to_the_next_cell(R"([{"ranks":4,"behaviour":"hang_stubbornly"},{"ranks":4}])");
  EXPECT_GT(seconds, deadline);
  EXPECT_LT(seconds, deadline + 5.0);
}

TEST(Isolation, AHungGangNamesPhaseOperationAndStackOfEachRankAndTheNextCellRuns) {
  const TemporaryDirectory directory;
  const std::string mark = run_mark();
  const ProgramEnd end = run_program(
      launch_line(2, {"--deadline-scale", "0.05", "--mock",
                      R"([{"ranks":2,"behaviour":"hang","rank":1,"phase":"instantiate"},
                          {"ranks":2,"behaviour":"rendezvous"}])",
                      "--isolation", "cell", "--report", (directory.path() / "report").string()}),
      marked_variables(mark));
  EXPECT_EQ(end.exit_code, 1) << end.out << end.err;
  const std::vector<json> results = results_in(directory.path() / "report");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].at("verdict"), "HANG");
  EXPECT_EQ(results[0].at("failing_rank"), 1);
  const json& hung = results[0].at("ranks").at(1).at("abnormal_end");
  EXPECT_EQ(hung.at("phase"), "instantiate");
  EXPECT_EQ(hung.at("last_operation"), "mock operation");
  EXPECT_THAT(hung.at("stack").dump(), ::testing::HasSubstr("run_mock_cell"));
  EXPECT_EQ(results[1].at("verdict"), "PASS");
  EXPECT_TRUE(eventually([&] { return processes_with(mark).empty(); }));
}

TEST(Isolation, ACrashNamesSignalAndFunction) {
  const TemporaryDirectory directory;
  const ProgramEnd end = run_program(
      launch_line(2, {"--mock", R"([{"ranks":2,"rank":1,"behaviour":"segfault"}])", "--isolation",
                      "cell", "--report", (directory.path() / "report").string()}),
      launcher_variables());
  EXPECT_EQ(end.exit_code, 1);
  const std::vector<json> results = results_in(directory.path() / "report");
  ASSERT_EQ(results.size(), 1U);
  const json& crash = results[0].at("ranks").at(1).at("abnormal_end");
  EXPECT_EQ(crash.at("signal"), SIGSEGV);
  EXPECT_THAT(crash.at("stack").dump(), ::testing::HasSubstr("run_mock_cell"));
}

/// The details of rank 0's only check, by cell.
std::vector<std::string> details_in(const std::filesystem::path& report) {
  std::map<std::uint64_t, std::string> by_index;
  for (const json& result : results_in(report)) {
    by_index[result.at("index")] = result.at("ranks").at(0).at("checks").at(0).at("detail");
  }
  std::vector<std::string> details;
  for (const auto& [index, detail] : by_index) details.push_back(detail);
  return details;
}

TEST(Isolation, CellsOfEqualEnvironmentShareAWorkerThatWasStartedWithIt) {
  const TemporaryDirectory directory;
  const auto report = directory.path() / "report";
  std::vector<std::string> variables = launcher_variables();
  variables.emplace_back("NCCL_GRAPH_REGISTER=1");
  const ProgramEnd end = run_program(
      launch_line(
          1, {"--mock",
              R"([{"behaviour":"environment","environment":{"NCCL_GRAPH_REGISTER":"0"},"count":2},
                  {"behaviour":"environment","environment":{"NCCL_GRAPH_REGISTER":"0","CUDA_X":"a"}},
                  {"behaviour":"environment","environment":{"NCCL_GRAPH_REGISTER":"0"}}])",
              "--report", report.string()}),
      variables);
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  const std::vector<std::string> details = details_in(report);
  ASSERT_EQ(details.size(), 4U);
  EXPECT_THAT(details[0], ::testing::EndsWith(" NCCL_GRAPH_REGISTER=0"));
  EXPECT_THAT(details[2], ::testing::EndsWith(" CUDA_X=a NCCL_GRAPH_REGISTER=0"));
  // The process is named first: the same one for equal environments, whatever stood between them.
  EXPECT_EQ(details[1], details[0]);
  EXPECT_EQ(details[3], details[0]);
  EXPECT_NE(details[2].substr(0, details[2].find(' ')), details[0].substr(0, details[0].find(' ')));
  EXPECT_EQ(results_in(report)[0].at("environment"), json({{"NCCL_GRAPH_REGISTER", "0"}}));
}

TEST(Isolation, AFailureNamesTheEnvironmentInTheLineThatRepeatsIt) {
  const TemporaryDirectory directory;
  const auto report = directory.path() / "report";
  const ProgramEnd end = run_program(
      launch_line(
          1,
          {"--mock", R"([{"behaviour":"failing_check","environment":{"NCCL_GRAPH_REGISTER":"0"}}])",
           "--report", report.string()}),
      launcher_variables());
  EXPECT_EQ(end.exit_code, 1) << end.out << end.err;
  const auto line = results_in(report).at(0).at("reproducer").get<std::string>();
  EXPECT_THAT(line, ::testing::StartsWith("env NCCL_GRAPH_REGISTER=0 "));
  const ProgramEnd again =
      run_program({"sh", "-c", line + " --report " + (directory.path() / "again").string()},
                  launcher_variables());
  EXPECT_EQ(again.exit_code, 1) << line << again.err;
}

/// Verdicts of a run of mock cells on one rank, in the order of the plan.
std::vector<std::string> verdicts_of(const std::string& plan) {
  const TemporaryDirectory directory;
  const auto report = directory.path() / "report";
  run_program(launch_line(1, {"--mock", plan, "--report", report.string()}), launcher_variables());
  std::map<std::uint64_t, std::string> by_index;
  for (const json& result : results_in(report)) by_index[result.at("index")] = result.at("verdict");
  std::vector<std::string> verdicts;
  for (const auto& [index, verdict] : by_index) verdicts.push_back(verdict);
  return verdicts;
}

// LIF-18, with the control that a process that is kept spoilt shows.
TEST(Isolation, WhatAFailingCellSpoiltDoesNotReachTheNext) {
  EXPECT_THAT(verdicts_of(R"([{"behaviour":"poison"},{"behaviour":"poisoned"}])"),
              ::testing::ElementsAre("FAIL_NUMERIC_MISMATCH", "PASS"));
  EXPECT_THAT(verdicts_of(R"([{"behaviour":"wild_access"},{"behaviour":"poisoned"}])"),
              ::testing::ElementsAre("FAIL_ILLEGAL_ACCESS", "PASS"));
  EXPECT_THAT(verdicts_of(R"([{"behaviour":"hidden_poison"},{"behaviour":"poisoned"}])"),
              ::testing::ElementsAre("PASS", "FLAKY"));
}

// SUI-09
TEST(Isolation, AFlakyCellKeepsBothAttempts) {
  const TemporaryDirectory directory;
  const auto report = directory.path() / "report";
  const ProgramEnd end =
      run_program(launch_line(2, {"--mock", R"([{"ranks":2,"behaviour":"failing_when_kept"}])",
                                  "--report", report.string()}),
                  launcher_variables());
  EXPECT_EQ(end.exit_code, 1) << end.out << end.err;
  const std::vector<json> results = results_in(report);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].at("verdict"), "FLAKY");
  EXPECT_EQ(results[0].at("attempt"), 2);
  EXPECT_EQ(results[0].at("ranks").size(), 2U);
  ASSERT_EQ(results[0].at("earlier").size(), 1U);
  const json& first = results[0].at("earlier").at(0);
  EXPECT_EQ(first.at("verdict"), "FAIL_NUMERIC_MISMATCH");
  EXPECT_EQ(first.at("ranks").at(0).at("checks").back().at("check_id"), "NUM-01");
}

// MEM-19
TEST(Isolation, NothingIsLeftOfAWorkerThatMadeASessionOfItsOwn) {
  const TemporaryDirectory directory;
  const std::string mark = run_mark();
  const ProgramEnd end =
      run_program(launch_line(2, {"--mock", R"([{"behaviour":"left_behind","count":2},{}])",
                                  "--report", (directory.path() / "report").string()}),
                  marked_variables(mark));
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_TRUE(processes_with(mark).empty());
}

TEST(Isolation, AllRanksEndWhereASupervisorIsKilled) {
  const TemporaryDirectory directory;
  const std::string mark = run_mark();
  StartedProgram program(launch_line(4, {"--mock", R"([{},{"ranks":4,"behaviour":"hang"}])",
                                         "--report", (directory.path() / "report").string()}),
                         marked_variables(mark));
  ASSERT_TRUE(eventually([&] { return !results_in(directory.path() / "report").empty(); }));
  ::kill(programs_of(mark, "cgconform").back(), SIGKILL);
  const ProgramEnd end = program.finish(std::chrono::seconds{20});
  EXPECT_FALSE(end.timed_out);
  EXPECT_NE(end.exit_code, 0);
  EXPECT_TRUE(eventually([&] { return processes_with(mark).empty(); }));
}

TEST(Isolation, NothingIsLeftWhenTheLauncherIsKilled) {
  const TemporaryDirectory directory;
  const std::string mark = run_mark();
  StartedProgram program(launch_line(3, {"--mock", R"([{"ranks":3,"behaviour":"hang_stubbornly"}])",
                                         "--report", (directory.path() / "report").string()}),
                         marked_variables(mark));
  // mpirun, three ranks, three workers, and the child of the stubborn one.
  ASSERT_TRUE(eventually([&] { return processes_with(mark).size() >= 8; }));
  ::kill(program.pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return processes_with(mark).empty(); }));
}

TEST(Isolation, AnInterruptedRunWritesEverythingAndEndsWithFive) {
  const TemporaryDirectory directory;
  const std::string mark = run_mark();
  StartedProgram program(
      launch_line(
          2, {"--mock", R"([{"count":3},{"ranks":2,"behaviour":"hang"},{"ranks":2,"count":3}])",
              "--report", (directory.path() / "report").string()}),
      marked_variables(mark));
  ASSERT_TRUE(eventually([&] { return results_in(directory.path() / "report").size() >= 3; }));
  for (const pid_t process : processes_with(mark)) {
    if (is_program(process, "cgconform")) {
      ::kill(process, SIGTERM);
      break;
    }
  }
  const ProgramEnd end = program.finish(std::chrono::seconds{60});
  EXPECT_EQ(end.exit_code, 5) << end.out << end.err;
  const json summary = json::parse(read_file(directory.path() / "report" / "summary.json"));
  EXPECT_THAT(summary.dump(), ::testing::HasSubstr("interrupted"));
  EXPECT_TRUE(eventually([&] { return processes_with(mark).empty(); }));
}

}  // namespace
}  // namespace cgconform::testing
