#include <chrono>
#include <csignal>
#include <cstdint>
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
  constexpr int kills = 20;
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
    // The moment is random; nothing waits for it.
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
