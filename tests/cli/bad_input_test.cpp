#include <fstream>
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
using ::testing::IsEmpty;

/// Arguments that cannot be used, and what the one message about them has to hold: the place and
/// the nearest valid choice or the remedy.
struct BadInput {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::string> message;
};

/// Names the row in CTest.
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's own name
void PrintTo(const BadInput& row, std::ostream* out) {
  *out << row.name;
}

class BadInputTest : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, EndsWithCode2AndOneMessageAndNoReport) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = GetParam().arguments;
  bool reports = true;
  for (const std::string& argument : arguments) {
    reports = reports && argument.find("--list") == std::string::npos && argument != "--report" &&
              argument != "--dry-run" && argument != "check" && argument != "explain";
  }
  const auto report = directory.path() / "report";
  if (reports) arguments.insert(arguments.end(), {"--report", report.string()});
  const ProgramEnd end = run_cgconform(arguments);
  EXPECT_EQ(end.exit_code, 2) << end.out << end.err;
  for (const std::string& part : GetParam().message) EXPECT_THAT(end.err, HasSubstr(part));
  const std::size_t first = end.err.find("cgconform: ");
  EXPECT_EQ(first, 0U) << end.err;
  EXPECT_EQ(end.err.find("cgconform: ", first + 1), std::string::npos) << "said twice";
  EXPECT_THAT(end.out, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(report));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadInputTest,
    ::testing::Values(
        BadInput{"UnknownOption", {"--matrx", "smoke"}, {"'--matrx'", "'--matrix'"}},
        BadInput{"UnknownCommand", {"selftst"}, {"'selftst'", "'selftest'"}},
        BadInput{"UnknownRuleToLift",
                 {"--lift", "full-iter-nan-chek"},
                 {"no such rule", "'full-iter-nan-check'"}},
        BadInput{"RuleThatProtectsNothingPhysical",
                 {"--lift", "full-iter-no-modules"},
                 {"full-iter-no-modules", "nothing physical", "full-iter-nan-check"}},
        BadInput{"RuleThatNothingHereCanShow",
                 {"--lift", "full-iter-nan-check,uvm-expandable"},
                 {"uvm-expandable", "unified memory"}},
        BadInput{
            "LiftWithoutEffect",
            {"--lift", "optimizer-capturable", "--filter", "impl=none", "--device", "reference"},
            {"no selected cell", "cgconform probe --only optimizer-capturable"}},
        BadInput{"UnknownProbe", {"probe", "--only", "rng-sync-bridg"}, {"'rng-sync-bridge'"}},
        BadInput{
            "ProbeWithAMatrix", {"probe", "--matrix", "smoke"}, {"probe has cells of its own"}},
        BadInput{"UnknownMatrix", {"--matrix", "smok"}, {"smok", "smoke"}},
        BadInput{"UnknownMatrixFile", {"--matrix", "no/such/file.json"}, {"no/such/file.json"}},
        BadInput{"UnknownAxis", {"--filter", "imp=local"}, {"--filter", "imp", "'impl'"}},
        BadInput{"UnknownAxisValue", {"--filter", "impl=lokal"}, {"column 6", "'local'"}},
        BadInput{"BrokenFilter", {"--filter", "impl=local &"}, {"--filter", "column"}},
        BadInput{"EmptyFilter", {"--filter", ""}, {"--filter", "empty"}},
        BadInput{"EmptyCell", {"--cell", ""}, {"--cell", "empty"}},
        BadInput{"FilterSelectsNothing", {"--filter", "impl=none & impl=local"}, {"selects no"}},
        BadInput{"UnknownCell", {"--cell", "0123456789abcdef"}, {"--cell", "--list"}},
        BadInput{"UnknownDevice", {"--device", "gpu"}, {"--device", "auto, reference, cuda"}},
        BadInput{"UnknownWordForSharing", {"--share-legs", "of"}, {"--share-legs", "'off'"}},
        BadInput{"UnknownIsolation", {"--isolation", "cells"}, {"--isolation", "'cell'"}},
        BadInput{"UnknownListFormat", {"--list=xml"}, {"--list", "text, json"}},
        BadInput{"ShardZero", {"--shard", "0/4"}, {"--shard 0/4", "I/N"}},
        BadInput{"ShardBeyondTheLast", {"--shard", "5/4"}, {"--shard 5/4", "I/N"}},
        BadInput{"ShardOfNone", {"--shard", "1/0"}, {"--shard 1/0", "I/N"}},
        BadInput{"ShardWithoutSlash", {"--shard", "2"}, {"--shard 2", "1/4"}},
        BadInput{"ShardIsNegative", {"--shard", "-1/4"}, {"--shard"}},
        BadInput{"ShardWithRest", {"--shard", "1/4x"}, {"--shard 1/4x", "I/N"}},
        BadInput{"EmptyShard", {"--shard", ""}, {"--shard", "I/N"}},
        BadInput{"BudgetWithoutNumber", {"--budget", "m"}, {"--budget m", "30m"}},
        BadInput{"BudgetZero", {"--budget", "0s"}, {"--budget 0s", "above 0"}},
        BadInput{"BudgetUnknownUnit", {"--budget", "3 days"}, {"--budget 3 days", "2h"}},
        BadInput{"RepeatZero", {"--repeat", "0"}, {"--repeat 0", "from 1"}},
        BadInput{"RepeatIsNoNumber", {"--repeat", "twice"}, {"--repeat twice", "whole number"}},
        BadInput{"SoakZero", {"--soak", "0"}, {"--soak 0", "above 0"}},
        BadInput{"SoakAndRepeat", {"--soak", "1m", "--repeat", "2"}, {"--soak", "--repeat"}},
        BadInput{"SoakAndBudget", {"--soak", "1m", "--budget", "1m"}, {"--soak", "--budget"}},
        BadInput{"MaxSkipsIsNegative", {"--max-skips", "-1"}, {"--max-skips"}},
        BadInput{"RerunOfNoFolder", {"--rerun-failed", "no/such/dir"}, {"no/such/dir", "folder"}},
        BadInput{"RerunOfEmptyName", {"--rerun-failed", ""}, {"--rerun-failed", "empty"}},
        BadInput{"SelftestWithShard", {"selftest", "--shard", "1/2"}, {"selftest", "--shard"}},
        BadInput{"MockWithShuffle", {"--mock", "[{}]", "--shuffle"}, {"--mock", "--shuffle"}},
        BadInput{"NegativeSeed", {"--seed", "-3"}, {"--seed -3", "whole number"}},
        BadInput{"SeedIsNoNumber", {"--seed", "seven"}, {"--seed seven", "whole number"}},
        BadInput{"TimeoutIsZero", {"--timeout", "0"}, {"--timeout 0", "above 0"}},
        BadInput{"TimeoutIsNoNumber", {"--timeout", "long"}, {"--timeout long", "90s"}},
        BadInput{"DeadlineScaleIsNoNumber", {"--deadline-scale", "2x"}, {"--deadline-scale 2x"}},
        BadInput{"DeadlineScaleIsNegative", {"--deadline-scale", "-1"}, {"--deadline-scale"}},
        BadInput{"DeadlineScaleIsNotFinite", {"--deadline-scale", "inf"}, {"--deadline-scale"}},
        BadInput{"ListAndDryRun", {"--list", "--dry-run"}, {"--list", "--dry-run", "contradict"}},
        BadInput{"ListAndReport", {"--list", "--report", "x"}, {"--report", "contradict"}},
        BadInput{"SelftestWithMatrix", {"selftest", "--matrix", "full"}, {"--matrix"}},
        BadInput{"UnknownSelftestRow", {"selftest", "--row", "F01a/locl"}, {"F01a/local"}},
        BadInput{"UnknownFault", {"--fault", "F01x"}, {"--fault", "F01"}},
        BadInput{"UnknownSabotage", {"--sabotage", "replay_nothing"}, {"replay_does_nothing"}},
        BadInput{"UnwritableReport", {"--report", "/proc/self/no/report"}, {"--report", "/proc"}},
        BadInput{"TooFewRanksForEveryCell", {"--filter", "pp=2"}, {"ranks", "mpirun -np 2"}}),
    [](const ::testing::TestParamInfo<BadInput>& test) { return test.param.name; });

TEST(BadInput, BrokenMatrixFileNamesFileLineAndColumn) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "broken.json";
  std::ofstream(file) << "{\n  \"name\": \"x\",\n  \"axes\": {,}\n}\n";
  const ProgramEnd end = run_cgconform({"--matrix", file.string(), "--list"});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.err, HasSubstr(file.string()));
  EXPECT_THAT(end.err, HasSubstr("3"));
}

}  // namespace
}  // namespace cgconform::testing
