#include "reports/round_tally.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgconform::reports {
namespace {

using suites::CellResult;
using suites::Verdict;
using testing::HasSubstr;

CellResult result_of(std::uint64_t round, const std::string& hash, Verdict verdict,
                     double memory = 0.0) {
  CellResult result;
  result.hash = hash;
  result.verdict = verdict;
  result.round = round;
  result.seed = 10 + round;
  result.seconds = 0.5;
  if (memory > 0.0) result.ranks.emplace_back().measurements[worker_memory] = memory;
  return result;
}

TEST(RoundTally, SumsResultsUpByRoundAndByCell) {
  RoundTally tally;
  tally.add(result_of(1, "a", Verdict::pass, 100.0));
  tally.add(result_of(1, "b", Verdict::baseline, 300.0));
  tally.add(result_of(2, "b", Verdict::flaky));
  tally.add(result_of(2, "a", Verdict::pass));
  ASSERT_EQ(tally.rounds().size(), 2U);
  EXPECT_EQ(tally.rounds()[0].cells, 2U);
  EXPECT_EQ(tally.rounds()[0].good, 2U);
  EXPECT_EQ(tally.rounds()[0].seed, 11U);
  EXPECT_DOUBLE_EQ(tally.rounds()[0].memory_bytes, 300.0);
  EXPECT_EQ(tally.rounds()[1].good, 1U);
  EXPECT_EQ(tally.rate("b").good, 1U);
  EXPECT_EQ(tally.rate("b").rounds, 2U);
  EXPECT_EQ(tally.rate("c").rounds, 0U);
}

TEST(RoundTally, LeavesOutWhatDidNotRunAndRunsWithoutRounds) {
  RoundTally tally;
  tally.add(result_of(0, "a", Verdict::pass));
  tally.add(result_of(1, "a", Verdict::skip));
  tally.add(result_of(1, "a", Verdict::rejected_constraint));
  EXPECT_TRUE(tally.rounds().empty());
}

TEST(TrendText, SetsTheFirstRoundAgainstTheLastThatRan) {
  RoundTally tally;
  tally.add(result_of(1, "a", Verdict::pass, 1048576.0));
  EXPECT_EQ(trend_text(tally.rounds()), "");
  tally.add(result_of(3, "a", Verdict::pass, 2097152.0));
  EXPECT_THAT(trend_text(tally.rounds()),
              HasSubstr("0.500 s a cell in round 1, 0.500 s in round 3"));
  EXPECT_THAT(trend_text(tally.rounds()), HasSubstr("1.0 MiB, then 2.0 MiB"));
}

}  // namespace
}  // namespace cgconform::reports
