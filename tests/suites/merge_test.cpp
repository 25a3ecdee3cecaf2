#include "suites/merge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgconform::suites {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MergeTarget target(int ranks) {
  return {.index = 3, .id = "impl=local", .hash = "00000000000000ab", .ranks = ranks};
}

RankReport report(int rank, std::vector<CheckResult> checks) {
  return {.rank = rank, .world_rank = rank + 10, .checks = std::move(checks), .cell_digest = "d"};
}

CheckResult passed(std::string id) {
  return {.check_id = std::move(id)};
}

CheckResult failed(std::string id, Verdict verdict, std::string detail = "") {
  return {.check_id = std::move(id), .verdict = verdict, .detail = std::move(detail)};
}

TEST(MergeReports, PassesWhereEveryRankPasses) {
  const auto result =
      merge_reports(target(2), {report(1, {passed("NUM-01")}), report(0, {passed("NUM-01")})});
  EXPECT_EQ(result.verdict, Verdict::pass);
  EXPECT_EQ(result.id, "impl=local");
  EXPECT_EQ(result.failing_rank, -1);
  ASSERT_EQ(result.ranks.size(), 2U);
  EXPECT_EQ(result.ranks[0].rank, 0);
}

TEST(MergeReports, CallsAnEagerCellBaselineAndNeverPassed) {
  const auto result = merge_reports(
      target(1), {report(0, {failed("NUM-01", Verdict::baseline), passed("SUI-02")})});
  EXPECT_EQ(result.verdict, Verdict::baseline);
}

TEST(MergeReports, FailsWhereOneRankFailsAndNamesItByWorldRank) {
  const auto result = merge_reports(
      target(2), {report(0, {passed("NUM-01")}),
                  report(1, {failed("NUM-01", Verdict::fail_numeric_mismatch, "seen")})});
  EXPECT_EQ(result.verdict, Verdict::fail_numeric_mismatch);
  EXPECT_EQ(result.check_id, "NUM-01");
  EXPECT_EQ(result.failing_rank, 11);
  EXPECT_EQ(result.reason, "seen");
}

TEST(MergeReports, LetsTheFirstCauseDecideAndListsTheOthersOnce) {
  const auto numeric = failed("NUM-01", Verdict::fail_numeric_mismatch);
  const auto result = merge_reports(
      target(2),
      {report(0, {numeric}), report(1, {numeric, failed("MEM-07", Verdict::fail_stale_address)})});
  EXPECT_EQ(result.verdict, Verdict::fail_stale_address);
  EXPECT_EQ(result.failing_rank, 11);
  EXPECT_THAT(result.secondary, ElementsAre("NUM-01 FAIL_NUMERIC_MISMATCH"));
}

TEST(MergeReports, FailsWhereARankGaveNoReport) {
  const auto result = merge_reports(target(2), {report(0, {passed("NUM-01")})});
  EXPECT_EQ(result.verdict, Verdict::fail_suite);
  EXPECT_EQ(result.check_id, "SUI-04");
  EXPECT_THAT(result.reason, HasSubstr("rank 1"));
  EXPECT_EQ(merge_reports(target(1), {}).verdict, Verdict::fail_suite);
}

TEST(MergeReports, FailsWhereARankReportsTwiceOrIsNotOfTheGang) {
  EXPECT_EQ(merge_reports(target(1), {report(0, {passed("A")}), report(0, {passed("A")})}).verdict,
            Verdict::fail_suite);
  EXPECT_EQ(merge_reports(target(1), {report(0, {passed("A")}), report(1, {passed("A")})}).verdict,
            Verdict::fail_suite);
}

TEST(MergeReports, FailsWhereARankJudgedNothing) {
  const auto result = merge_reports(target(1), {report(0, {})});
  EXPECT_EQ(result.verdict, Verdict::fail_coverage);
}

TEST(MergeReports, FailsWhereRanksRanDifferentCells) {
  auto other = report(1, {passed("NUM-01")});
  other.cell_digest = "e";
  const auto result = merge_reports(target(2), {report(0, {passed("NUM-01")}), other});
  EXPECT_EQ(result.verdict, Verdict::fail_suite);
  EXPECT_EQ(result.failing_rank, 11);
}

TEST(MergeReports, GivesACrashWithItsPhaseBeforeTheErrorsOfThePeers) {
  auto crashed = report(1, {});
  crashed.abnormal_end = AbnormalEnd{
      .verdict = Verdict::crash, .signal = 11, .phase = "replay", .last_operation = "step 1 send"};
  const auto result =
      merge_reports(target(2), {report(0, {failed("SUI-05", Verdict::hang, "no peer")}), crashed});
  EXPECT_EQ(result.verdict, Verdict::crash);
  EXPECT_EQ(result.failing_rank, 11);
  EXPECT_EQ(result.reason, "the worker ended by signal 11 in phase replay at 'step 1 send'");
}

TEST(MergeReports, NeverPassesAnAbnormalEndWhateverItsVerdict) {
  auto odd = report(0, {passed("NUM-01")});
  odd.abnormal_end = AbnormalEnd{.verdict = Verdict::pass};
  EXPECT_EQ(merge_reports(target(1), {odd}).verdict, Verdict::crash);
}

}  // namespace
}  // namespace cgconform::suites
