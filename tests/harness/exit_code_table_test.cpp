#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/exit_codes.hpp"
#include "tests/build_paths.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::harness {
namespace {

using suites::Verdict;
using ::testing::HasSubstr;

reports::RunSummary summary_of(const std::map<Verdict, std::uint64_t>& verdicts,
                               std::uint64_t planned_skips = 0) {
  reports::RunSummary summary;
  summary.verdicts = verdicts;
  summary.counts.skipped = planned_skips;
  return summary;
}

TEST(ExitCodeTable, HasThePublishedCodesOnce) {
  std::set<int> codes;
  for (const ExitCodeRow& row : exit_code_table()) codes.insert(exit_status(row.code));
  EXPECT_THAT(codes, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 77));
  EXPECT_EQ(exit_code_table().size(), codes.size());
}

TEST(ExitCodeTable, StandsInTheReadmeAsItIs) {
  const std::string readme = testing::read_file(std::string(CGCONFORM_SOURCE_DIR) + "/README.md");
  EXPECT_THAT(readme, HasSubstr(exit_code_markdown()));
}

TEST(ExitCode, OfEveryBadVerdictIsFailed) {
  for (const suites::VerdictRow& row : suites::verdict_table()) {
    if (row.verdict_class != suites::VerdictClass::bad) continue;
    EXPECT_EQ(exit_code_of(summary_of({{row.verdict, 1}, {Verdict::pass, 9}})), ExitCode::failed)
        << row.name;
  }
}

TEST(ExitCode, OfAMissingVerdictComesBeforeAFailure) {
  reports::RunSummary summary = summary_of({{Verdict::crash, 1}});
  summary.missing = 1;
  EXPECT_EQ(exit_code_of(summary), ExitCode::internal_error);
}

TEST(ExitCode, TellsPlannedSkipsFromOthers) {
  EXPECT_EQ(exit_code_of(summary_of({{Verdict::pass, 1}, {Verdict::skip, 2}}, 2)),
            ExitCode::passed);
  EXPECT_EQ(exit_code_of(summary_of({{Verdict::pass, 1}, {Verdict::skip, 3}}, 2)),
            ExitCode::unplanned_skips);
}

TEST(ExitCode, SaysWhereEverythingWasSkipped) {
  EXPECT_EQ(exit_code_of(summary_of({{Verdict::skip, 2}}, 2)), ExitCode::everything_skipped);
  EXPECT_EQ(exit_code_of(summary_of({{Verdict::skip, 2}, {Verdict::rejected_constraint, 1}}, 2)),
            ExitCode::everything_skipped);
  EXPECT_EQ(exit_code_of(summary_of({{Verdict::rejected_constraint, 1}})), ExitCode::passed);
}

TEST(ExitCode, OfAFaultOfTheEnvironmentIsItsOwn) {
  EXPECT_EQ(exit_code_of(summary_of({{Verdict::inconclusive_env, 1}, {Verdict::pass, 4}})),
            ExitCode::environment);
}

}  // namespace
}  // namespace cgconform::harness
