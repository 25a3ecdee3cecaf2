#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/program_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What a run of mock cells on two ranks has to end with.
struct ExitRow {
  std::string name;
  std::string mock;
  int code;
  std::string said;  ///< on the console
};

/// Names the row in CTest.
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's own name
void PrintTo(const ExitRow& row, std::ostream* out) {
  *out << row.name;
}

class ExitCodeTest : public ::testing::TestWithParam<ExitRow> {};

TEST_P(ExitCodeTest, IsReturnedByTheLauncher) {
  const TemporaryDirectory directory;
  const ProgramEnd end =
      run_program(launch_line(2, {"--deadline-scale", "0.05", "--mock", GetParam().mock, "--report",
                                  (directory.path() / "report").string()}),
                  launcher_variables());
  EXPECT_EQ(end.exit_code, GetParam().code) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ExitCodeTest,
    ::testing::Values(
        ExitRow{"Passed", R"([{"ranks":2,"behaviour":"rendezvous","count":3},{"count":4}])", 0,
                "passed"},
        ExitRow{"FailedCheck", R"([{"ranks":2,"rank":1,"behaviour":"failing_check"}])", 1,
                "FAIL_NUMERIC_MISMATCH"},
        ExitRow{"Crash", R"([{"ranks":2,"rank":1,"behaviour":"segfault"},{"count":3}])", 1,
                "CRASH"},
        ExitRow{"Abort", R"([{"behaviour":"abort_call"}])", 1, "CRASH"},
        ExitRow{"WildAccess", R"([{"behaviour":"wild_access"}])", 1, "FAIL_ILLEGAL_ACCESS"},
        ExitRow{"EarlyExitWithZero", R"([{"ranks":2,"behaviour":"exit_zero"}])", 1, "CRASH"},
        ExitRow{"Hang", R"([{"ranks":2,"behaviour":"hang","phase":"capture"}])", 1, "HANG"},
        ExitRow{"StubbornHang", R"([{"behaviour":"hang_stubbornly"}])", 1, "HANG"},
        ExitRow{"SilentWorker", R"([{"behaviour":"silent_close"}])", 1, "HANG"},
        ExitRow{"HangInTeardown", R"([{"behaviour":"hang","phase":"teardown"}])", 1,
                "FAIL_TEARDOWN"},
        ExitRow{"Lie", R"([{"ranks":2,"behaviour":"wrong_cell"}])", 1, "FAIL_SUITE"},
        ExitRow{"Garbage", R"([{"behaviour":"garbage"}])", 1, "FAIL_SUITE"},
        ExitRow{"OtherPlan", R"([{"ranks":2,"rank":1,"behaviour":"other_plan"}])", 1, "FAIL_SUITE"},
        ExitRow{"NothingTested", R"([{"behaviour":"nothing_tested"}])", 1, "FAIL_COVERAGE"},
        ExitRow{"Flaky", R"([{"ranks":2},{"ranks":2,"behaviour":"failing_when_kept"}])", 1,
                "FLAKY"},
        ExitRow{"BadInput", R"([{"behaviour":"pas"}])", 2, ""},
        ExitRow{"Exception", R"([{"ranks":2,"behaviour":"throwing"}])", 1, "exit code 2"},
        ExitRow{"Terminated", R"([{"ranks":2,"behaviour":"terminated"}])", 1, "signal 15"},
        ExitRow{"MissingVerdict", R"([{"count":2},{"behaviour":"lost"}])", 7,
                "planned cells without a verdict"},
        ExitRow{"MissingVerdictBesideAFailure",
                R"([{"behaviour":"failing_check"},{"behaviour":"lost"}])", 7,
                "planned cells without a verdict"},
        ExitRow{"UnplannedSkip", R"([{"behaviour":"skip"},{}])", 4, "unplanned skips"},
        ExitRow{"EverythingSkipped", R"([{"behaviour":"skip","count":2}])", 77, "skipped"}),
    [](const ::testing::TestParamInfo<ExitRow>& test) { return test.param.name; });

TEST(ExitCode, IsSixWhereTheSelftestDoesNotSeeWhatItMust) {
  const TemporaryDirectory directory;
  // A cell that has no time hangs, which is not what the row says.
  const ProgramEnd end =
      run_program(launch_line(2, {"selftest", "--row", "off/local", "--timeout", "0.001",
                                  "--report", (directory.path() / "report").string()}),
                  launcher_variables());
  EXPECT_EQ(end.exit_code, 6) << end.out << end.err;
}

TEST(ExitCode, IsTwoAndSaidOnceWhereTheCommandLineIsWrongOnAllRanks) {
  const ProgramEnd end = run_program(launch_line(4, {"--matrx", "smoke"}), launcher_variables());
  EXPECT_EQ(end.exit_code, 2);
  const std::size_t first = end.err.find("cgconform: ");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(end.err.find("cgconform: ", first + 1), std::string::npos) << end.err;
}

TEST(ExitCode, IsThreeAndNamesTheRankWhoseVariablesDiffer) {
  const TemporaryDirectory directory;
  const std::string report = (directory.path() / "report").string();
  const std::vector<std::string> arguments{cgconform_program(), "--mock", R"([{}])", "--report",
                                           report};
  std::vector<std::string> words{"mpirun", "--oversubscribe", "-np", "1"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {":", "-np", "1", "-x", "NCCL_GRAPH_REGISTER=0"});
  words.insert(words.end(), arguments.begin(), arguments.end());
  const ProgramEnd end = run_program(words, launcher_variables());
  EXPECT_EQ(end.exit_code, 3) << end.err;
  EXPECT_THAT(end.err, HasSubstr("rank 1"));
  EXPECT_THAT(end.err, HasSubstr("NCCL_GRAPH_REGISTER"));
  EXPECT_FALSE(std::filesystem::exists(report));
}

TEST(ExitCode, IsThreeUnderALauncherWhoseProcessesMpiDoesNotConnect) {
  const ProgramEnd end =
      run_program({cgconform_program(), "--mock", "[{}]"}, {"PMI_RANK=1", "PMI_SIZE=4"});
  EXPECT_EQ(end.exit_code, 3) << end.out << end.err;
  EXPECT_THAT(end.err, HasSubstr("started 4 processes and MPI connects 1"));
}

TEST(ExitCode, IsThreeAndNamesTheRankWhoseOptionsDiffer) {
  const TemporaryDirectory directory;
  const std::string report = (directory.path() / "report").string();
  std::vector<std::string> words{"mpirun", "--oversubscribe"};
  for (const char* seed : {"1", "2"}) {
    if (words.size() > 2) words.emplace_back(":");
    words.insert(words.end(), {"-np", "1", cgconform_program(), "--mock", R"([{}])", "--report",
                               report, "--seed", seed});
  }
  const ProgramEnd end = run_program(words, launcher_variables());
  EXPECT_EQ(end.exit_code, 3) << end.err;
  EXPECT_THAT(end.err, HasSubstr("rank 1"));
  EXPECT_THAT(end.err, HasSubstr("seed=2"));
}

TEST(ExitCode, IsZeroForListingUnderTheLauncherWhichPrintsOnce) {
  const ProgramEnd end = run_program(launch_line(4, {"--list"}), launcher_variables());
  EXPECT_EQ(end.exit_code, 0) << end.err;
  const std::string first = end.out.substr(0, end.out.find('\n'));
  ASSERT_THAT(first, Not(HasSubstr(" ")));
  EXPECT_EQ(end.out.find(first, first.size()), std::string::npos);
}

}  // namespace
}  // namespace cgconform::testing
