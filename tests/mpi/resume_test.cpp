#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <unistd.h>

#include "tests/mpi/run_watch.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int ranks = 4;
/// Healthy cells of every gang size, and cells of which every kind of end is known.
constexpr const char* mixed_plan = R"([
  {"ranks":2,"behaviour":"slow","milliseconds":30,"count":8},
  {"ranks":2,"behaviour":"failing_check"},
  {"ranks":4,"behaviour":"slow","milliseconds":30,"count":3},
  {"ranks":1,"behaviour":"segfault"},
  {"ranks":1,"behaviour":"slow","milliseconds":20,"count":6},
  {"ranks":1,"behaviour":"skip"},
  {"ranks":2,"behaviour":"rendezvous","count":2},
  {"ranks":4,"behaviour":"exit_zero"}])";

/// What a report says: verdicts by cell id, and how often a cell stands in it.
struct Told {
  std::map<std::string, std::string> verdicts;
  bool once = true;
  friend bool operator==(const Told&, const Told&) = default;
};

Told told_by(const std::filesystem::path& report) {
  Told told;
  for (const json& result : results_in(report)) {
    const bool is_new = told.verdicts.emplace(result.at("id"), result.at("verdict")).second;
    told.once = told.once && is_new;
  }
  return told;
}

/// One way to end a run from outside.
enum class Victim : std::uint8_t { worker, supervisor, launcher, everything };

void kill_one(const std::vector<pid_t>& processes, std::mt19937_64& random) {
  if (!processes.empty()) ::kill(processes[random() % processes.size()], SIGKILL);
}

void kill_victim(Victim victim, pid_t launcher, const std::string& mark, std::mt19937_64& random) {
  switch (victim) {
    case Victim::worker:
      kill_one(programs_of(mark, "cgconform-worker"), random);
      break;
    case Victim::supervisor:
      kill_one(programs_of(mark, "cgconform"), random);
      break;
    case Victim::launcher:
      ::kill(launcher, SIGKILL);
      break;
    case Victim::everything:
      for (const pid_t process : processes_with(mark)) ::kill(process, SIGKILL);
      break;
  }
}

/// What a killed run leaves has to be readable.
void expect_readable_reports(const std::filesystem::path& report) {
  if (std::filesystem::exists(report / "summary.json")) {
    EXPECT_TRUE(json::accept(read_file(report / "summary.json")));
  }
  if (std::filesystem::exists(report / "junit.xml")) {
    pugi::xml_document junit;
    EXPECT_TRUE(junit.load_string(read_file(report / "junit.xml").c_str()));
  }
}

class ResumeTest : public ::testing::Test {
 protected:
  std::filesystem::path report() const { return directory_.path() / "report"; }

  std::vector<std::string> line(const char* option, const std::string& plan = mixed_plan,
                                std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{option, report().string()};
    if (!plan.empty()) arguments.insert(arguments.end(), {"--mock", plan});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return launch_line(ranks, arguments);
  }

  /// Runs a plan and KILLs everything as soon as `verdicts` stand in the report.
  void begin_and_kill(std::size_t verdicts) const {
    const std::string mark = run_mark();
    StartedProgram program(line("--report"), marked_variables(mark));
    ASSERT_TRUE(eventually([&] { return results_in(report()).size() >= verdicts; }));
    std::mt19937_64 random(1);
    kill_victim(Victim::everything, program.pid(), mark, random);
    program.finish(std::chrono::seconds{20});
  }

  void expect_refused(const std::vector<std::string>& words, const std::string& reason) const {
    const ProgramEnd end = run_program(words, launcher_variables());
    EXPECT_EQ(end.exit_code, 2) << end.out << end.err;
    EXPECT_THAT(end.err, HasSubstr(reason));
  }

  const std::filesystem::path& folder() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

/// More kills are asked for by the script that repeats the figures of the documents.
int kills_wanted() {
  const char* text = std::getenv("CGTEST_KILLS");
  return text == nullptr ? 8 : std::atoi(text);
}

TEST_F(ResumeTest, GivesTheVerdictsOfAnUnbrokenRunHoweverOftenItIsKilled) {
  const ProgramEnd unbroken = run_program(
      launch_line(ranks, {"--mock", mixed_plan, "--report", (folder() / "unbroken").string()}),
      launcher_variables());
  ASSERT_EQ(unbroken.exit_code, 1) << unbroken.err;
  const Told expected = told_by(folder() / "unbroken");
  ASSERT_EQ(expected.verdicts.size(), 23U);

  std::mt19937_64 random(20260102);
  std::map<Victim, int> kills;
  int resumes = 0;
  int runs = 0;
  int finished_before_the_kill = 0;
  for (int kill = 0; kill < kills_wanted();) {
    std::filesystem::remove_all(report());
    ++runs;
    bool begun = false;
    bool go_on = true;
    while (go_on) {
      const auto victim = static_cast<Victim>(kill % 4);
      const std::string mark = run_mark();
      StartedProgram program(line(begun ? "--resume" : "--report"), marked_variables(mark));
      if (begun) ++resumes;
      begun = true;
      go_on = kill < kills_wanted();
      if (go_on) {
        // The moment is random, from before the first rank to after the last verdict.
        ::usleep(static_cast<useconds_t>(random() % 1500000));
        kill_victim(victim, program.pid(), mark, random);
        ++kills[victim];
        ++kill;
      }
      const ProgramEnd end = program.finish(std::chrono::seconds{120});
      // A rank that dies while Open MPI starts it up can leave the launcher waiting for good.
      const bool launcher_lost =
          end.timed_out && end.err.find("PMIX ERROR: UNREACHABLE") != std::string::npos;
      if (launcher_lost) {
        kill_victim(Victim::everything, 0, mark, random);
      } else {
        ASSERT_FALSE(end.timed_out) << end.out << end.err;
        ASSERT_NE(end.exit_code, 0) << end.out << end.err;
      }
      expect_readable_reports(report());
      if (!go_on) {
        EXPECT_EQ(end.exit_code, 1) << end.out << end.err;
      }
      if (go_on && end.exit_code == 1 && told_by(report()) == expected) {
        ++finished_before_the_kill;
        go_on = false;
      }
    }
    EXPECT_EQ(told_by(report()).verdicts, expected.verdicts);
    EXPECT_TRUE(told_by(report()).once);
  }
  std::printf(
      "%d kills (%d workers, %d supervisors, %d launchers, %d of everything) in %d runs, "
      "%d resumes; %d runs ended whole\n",
      kills_wanted(), kills[Victim::worker], kills[Victim::supervisor], kills[Victim::launcher],
      kills[Victim::everything], runs, resumes, finished_before_the_kill);
}

TEST_F(ResumeTest, TellsEveryCellOnceInAllReports) {
  begin_and_kill(6);
  const ProgramEnd end = run_program(line("--resume", ""), launcher_variables());
  EXPECT_EQ(end.exit_code, 1) << end.out << end.err;
  const Told told = told_by(report());
  EXPECT_TRUE(told.once);
  EXPECT_EQ(told.verdicts.size(), 23U);
  const json summary = json::parse(read_file(report() / "summary.json"));
  EXPECT_EQ(summary.at("finished"), true);
  EXPECT_EQ(summary.at("missing"), 0);
  EXPECT_EQ(summary.at("verdicts").at("PASS"), 19);
  EXPECT_EQ(summary.at("failures").size(), 3U);
  pugi::xml_document junit;
  ASSERT_TRUE(junit.load_string(read_file(report() / "junit.xml").c_str()));
  const pugi::xml_node suite = junit.child("testsuites").child("testsuite");
  EXPECT_EQ(suite.attribute("tests").as_int(), 23);
  EXPECT_THAT(end.out, HasSubstr("22 of 23 cells, 19 good, 3 bad"));
}

TEST_F(ResumeTest, SaysThatAFinishedRunIsFinishedAndReturnsItsExitCode) {
  ASSERT_EQ(
      run_program(line("--report", R"([{},{"behaviour":"failing_check"}])"), launcher_variables())
          .exit_code,
      1);
  const Told told = told_by(report());
  const ProgramEnd end = run_program(line("--resume", ""), launcher_variables());
  EXPECT_EQ(end.exit_code, 1) << end.err;
  EXPECT_THAT(end.out, HasSubstr("finished: exit code 1"));
  EXPECT_EQ(told_by(report()), told);
}

TEST_F(ResumeTest, RefusesAnotherRunNamingWhatDiffers) {
  begin_and_kill(2);
  expect_refused(line("--resume", "", {"--seed", "2"}), "--seed: seed=1 there, seed=2 here");
  expect_refused(line("--resume", R"([{}])"), "matrix mock has changed");
  expect_refused(line("--resume", "", {"--timeout", "5"}), "--timeout");
  expect_refused(line("--resume", "", {"--matrix", "smoke"}), "--matrix is given");
  expect_refused(launch_line(2, {"--resume", report().string()}), "ranks: 4 there, 2 here");
  std::vector<std::string> other = launcher_variables();
  other.emplace_back("NCCL_GRAPH_REGISTER=0");
  const ProgramEnd end = run_program(line("--resume", ""), other);
  EXPECT_EQ(end.exit_code, 2) << end.err;
  EXPECT_THAT(end.err, HasSubstr("NCCL_GRAPH_REGISTER"));
}

TEST_F(ResumeTest, RefusesAnotherProgram) {
  begin_and_kill(2);
  const std::filesystem::path programs = folder() / "bin";
  std::filesystem::copy(std::filesystem::path(cgconform_program()).parent_path(), programs);
  std::ofstream(programs / "cgconform-worker", std::ios::app) << '\n';
  std::vector<std::string> words = line("--resume", "");
  *std::find(words.begin(), words.end(), cgconform_program()) = (programs / "cgconform").string();
  expect_refused(words, "program cgconform-worker");
}

TEST_F(ResumeTest, RefusesAnEditedJournalWithItsPlaceAndToleratesATornEnd) {
  begin_and_kill(4);
  const auto journal = report() / "journal.jsonl";
  const std::string text = read_file(journal);
  std::string edited = text;
  edited.replace(edited.find("\"PASS\""), 6, "\"SKIP\"");
  std::ofstream(journal, std::ios::binary) << edited;
  expect_refused(line("--resume", ""), "journal.jsonl:");
  std::ofstream(journal, std::ios::binary) << text << "{\"attempt\":1,\"che";
  EXPECT_EQ(run_program(line("--resume", ""), launcher_variables()).exit_code, 1);
  EXPECT_EQ(told_by(report()).verdicts.size(), 23U);
}

TEST_F(ResumeTest, RefusesAFolderWithoutARunUnlessItIsSaidWhatToRun) {
  expect_refused(launch_line(2, {"--resume", report().string()}), "holds no run");
  std::filesystem::create_directory(report());
  std::ofstream(report() / "journal.jsonl") << "{\"journal_ver";
  expect_refused(launch_line(2, {"--resume", report().string()}), "holds no run");
  EXPECT_EQ(run_program(line("--resume", R"([{}])"), launcher_variables()).exit_code, 0);
  EXPECT_EQ(told_by(report()).verdicts.size(), 1U);
}

TEST_F(ResumeTest, IsRefusedWhileTheRunGoesOn) {
  const std::string mark = run_mark();
  StartedProgram program(line("--report", R"([{},{"behaviour":"hang"}])"), marked_variables(mark));
  ASSERT_TRUE(eventually([&] { return !results_in(report()).empty(); }));
  expect_refused(line("--resume", ""), "still going on");
  for (const pid_t process : programs_of(mark, "cgconform")) {
    ::kill(process, SIGTERM);
    break;
  }
  EXPECT_EQ(program.finish(std::chrono::seconds{60}).exit_code, 5);
}

TEST_F(ResumeTest, AnInterruptedRunEndsWithFiveAndPrintsTheLineThatResumesIt) {
  const std::string mark = run_mark();
  StartedProgram program(
      launch_line(2, {"--mock", R"([{"count":3},{"behaviour":"slow","milliseconds":3000},{}])",
                      "--report", report().string()}),
      marked_variables(mark));
  ASSERT_TRUE(eventually([&] { return results_in(report()).size() >= 3; }));
  ::kill(programs_of(mark, "cgconform").front(), SIGINT);
  const ProgramEnd end = program.finish(std::chrono::seconds{60});
  EXPECT_EQ(end.exit_code, 5) << end.out << end.err;
  const std::size_t place = end.out.find("resume: ");
  ASSERT_NE(place, std::string::npos) << end.out;
  const std::string resume = end.out.substr(place + 8, end.out.find('\n', place) - place - 8);
  const ProgramEnd rest = run_program({"sh", "-c", resume}, launcher_variables());
  EXPECT_EQ(rest.exit_code, 0) << resume << rest.out << rest.err;
  EXPECT_EQ(told_by(report()).verdicts.size(), 5U);
}

}  // namespace
}  // namespace cgconform::testing
