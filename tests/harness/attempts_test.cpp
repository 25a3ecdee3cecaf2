#include "harness/attempts.hpp"

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgconform::harness {
namespace {

using suites::RankReport;
using suites::Verdict;
using ::testing::HasSubstr;

RankReport report(int rank, Verdict verdict = Verdict::pass) {
  RankReport report;
  report.rank = rank;
  report.world_rank = rank + 2;
  report.captures = report.replays = report.comparisons = 1;
  report.checks.push_back({"NUM-01", verdict, "seen", std::nullopt});
  report.cell_digest = "d";
  return report;
}

FinishedAttempt attempt(std::vector<RankReport> reports) {
  FinishedAttempt attempt;
  attempt.planned.name = {"impl=local", "00ff"};
  for (const RankReport& rank : reports) attempt.world_ranks.push_back(rank.world_rank);
  attempt.reports = std::move(reports);
  return attempt;
}

TEST(Attempts, PassWhereAllRanksTestedSomething) {
  EXPECT_EQ(judge_attempt(attempt({report(0), report(1)})).verdict, Verdict::pass);
}

TEST(Attempts, NeverPassAGraphCellWithoutCaptureReplayOrComparisonOnSomeRank) {
  for (std::uint64_t RankReport::*count :
       {&RankReport::captures, &RankReport::replays, &RankReport::comparisons}) {
    auto reports = attempt({report(0), report(1)});
    reports.reports[1].*count = 0;
    const auto result = judge_attempt(reports);
    EXPECT_EQ(result.verdict, Verdict::fail_coverage);
    EXPECT_EQ(result.check_id, "SUI-02");
    EXPECT_EQ(result.failing_rank, 3);
  }
}

TEST(Attempts, WantNoCaptureOfARankWhoseStageHasNoLayerInScope) {
  auto reports = attempt({report(0), report(1)});
  matrix::Cell& cell = reports.planned.cell;
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::local;
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::attn};
  cell.config.is_hybrid_model = true;
  cell.config.num_layers = 4;
  cell.config.pipeline_model_parallel_size = 2;
  EXPECT_EQ(judge_attempt(reports).verdict, Verdict::fail_coverage);
  EXPECT_EQ(judge_attempt(reports).failing_rank, 3);
  reports.reports[1].captures = reports.reports[1].replays = 0;
  EXPECT_EQ(judge_attempt(reports).verdict, Verdict::pass);
  reports.reports[0].captures = 0;
  EXPECT_EQ(judge_attempt(reports).failing_rank, 2);
}

TEST(Attempts, TakeACrashForTheCauseAndNotThePeersItStopped) {
  auto reports = attempt({report(0), report(1)});
  reports.reports[0].abnormal_end =
      suites::AbnormalEnd{.verdict = Verdict::crash, .ended_by_peer = true};
  reports.reports[1].abnormal_end =
      suites::AbnormalEnd{.verdict = Verdict::crash, .signal = SIGSEGV, .phase = "replay"};
  const auto result = judge_attempt(reports);
  EXPECT_EQ(result.verdict, Verdict::crash);
  EXPECT_EQ(result.failing_rank, 3);
  EXPECT_THAT(result.reason, HasSubstr("replay"));
}

TEST(Attempts, TakeACrashForTheCauseOfALostGang) {
  auto reports = attempt({report(0, Verdict::inconclusive_env), report(1)});
  reports.reports[1].abnormal_end =
      suites::AbnormalEnd{.verdict = Verdict::crash, .signal = SIGKILL};
  EXPECT_EQ(judge_attempt(reports).failing_rank, 3);
}

TEST(Attempts, AreFlakyWhereTheyEndDifferently) {
  const auto failed = judge_attempt(attempt({report(0, Verdict::fail_rng_state)}));
  auto again = attempt({report(0)});
  again.attempt = 2;
  const auto merged = merge_attempts(failed, judge_attempt(again));
  EXPECT_EQ(merged.verdict, Verdict::flaky);
  EXPECT_EQ(merged.check_id, "NUM-01");
  EXPECT_EQ(merged.attempt, 2);
  EXPECT_THAT(merged.reason, HasSubstr("FAIL_RNG_STATE"));
  EXPECT_THAT(merged.reason, HasSubstr("PASS"));
}

// SUI-09
TEST(Attempts, AreBothKept) {
  auto once = attempt({report(0, Verdict::fail_rng_state)});
  once.planned.environment = {{"NCCL_GRAPH_REGISTER", "0"}};
  const auto failed = judge_attempt(once);
  for (const Verdict second : {Verdict::pass, Verdict::fail_rng_state}) {
    const auto merged = merge_attempts(failed, judge_attempt(attempt({report(0, second)})));
    ASSERT_EQ(merged.earlier.size(), 1U);
    EXPECT_EQ(merged.earlier[0].verdict, Verdict::fail_rng_state);
    EXPECT_EQ(merged.earlier[0].ranks, failed.ranks);
    EXPECT_EQ(merged.ranks[0].checks[0].verdict, second);
  }
  EXPECT_EQ(failed.environment.at("NCCL_GRAPH_REGISTER"), "0");
}

TEST(Attempts, KeepTheVerdictThatTheyAgreeOn) {
  const auto failed = judge_attempt(attempt({report(0, Verdict::fail_rng_state)}));
  EXPECT_EQ(merge_attempts(failed, failed).verdict, Verdict::fail_rng_state);
}

TEST(Attempts, AreRepeatedForFailuresOfKeptWorkersOnly) {
  const auto failed = judge_attempt(attempt({report(0, Verdict::fail_rng_state)}));
  EXPECT_TRUE(deserves_second_attempt(failed, false));
  EXPECT_FALSE(deserves_second_attempt(failed, true));
  EXPECT_FALSE(deserves_second_attempt(judge_attempt(attempt({report(0)})), false));
}

TEST(Attempts, AreNotRepeatedAfterAKillFromOutside) {
  auto reports = attempt({report(0)});
  reports.reports[0].abnormal_end =
      suites::AbnormalEnd{.verdict = Verdict::crash, .signal = SIGKILL};
  EXPECT_FALSE(deserves_second_attempt(judge_attempt(reports), false));
}

}  // namespace
}  // namespace cgconform::harness
