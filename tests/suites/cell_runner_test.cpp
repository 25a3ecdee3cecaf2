#include "suites/cell_runner.hpp"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/leg_errors.hpp"
#include "tests/suites/synthetic_legs.hpp"
#include "tests/workloads/scripted_gang.hpp"
#include "workloads/parallel/launch_ledger.hpp"

namespace cgconform::suites {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using workloads::ErrorCategory;
using workloads::Phase;
using workloads::testing::ScriptedGang;

std::string agree(const std::string& mine, int /*call*/) {
  return mine;
}

class CellRunnerTest : public testing::Test {
 protected:
  RankReport run(workloads::Communicator* gang, const std::function<void(LegRecord&)>& spoil = {}) {
    const LegSource source = [&, spoil](const matrix::Cell& cell, const LegRequest& request) {
      asked_.push_back(leg_name(request));
      LegRecord record = legs_.healthy(cell, request);
      if (spoil && request.kind == workloads::LegKind::graph) spoil(record);
      return record;
    };
    return run_cell(SyntheticLegs::cell(),
                    {.cell_id = "cell", .seed = 3, .world_rank = 9, .host = "h"}, source,
                    {legs_.device(), *comparator_, gang});
  }

  SyntheticLegs legs_;
  std::unique_ptr<TensorComparator> comparator_ = create_device_comparator(legs_.device());
  std::vector<std::string> asked_;
};

void fail_capture(LegRecord& record) {
  record.error = "cudaStreamSynchronize: not allowed";
  record.error_category = ErrorCategory::stream_capture_unsupported;
  record.error_phase = Phase::capture;
}

TEST_F(CellRunnerTest, RunsEachLegOnce) {
  run(nullptr);
  ASSERT_GE(asked_.size(), 6U);
  EXPECT_THAT(std::vector(asked_.begin(), asked_.begin() + 6),
              ElementsAre("eager", "eager instrumented", "eager repeat 1", "eager timed repeat 1",
                          "graph", "graph instrumented"));
  EXPECT_EQ(std::set(asked_.begin(), asked_.end()).size(), asked_.size());
}

TEST_F(CellRunnerTest, FillsInWhoReports) {
  ScriptedGang gang(1, agree);
  const RankReport report = run(&gang);
  EXPECT_EQ(report.rank, 1);
  EXPECT_EQ(report.world_rank, 9);
  EXPECT_EQ(report.host, "h");
  EXPECT_EQ(report.device, "reference");
  EXPECT_EQ(report.cell_digest.size(), 16U);
}

TEST_F(CellRunnerTest, StartsNothingWhereRanksPlanDifferentCells) {
  ScriptedGang gang(0, [](const std::string&, int) { return std::string("another digest"); });
  const RankReport report = run(&gang);
  EXPECT_TRUE(asked_.empty());
  ASSERT_EQ(report.checks.size(), 1U);
  EXPECT_EQ(report.checks[0].verdict, Verdict::fail_suite);
  EXPECT_THAT(report.checks[0].detail, HasSubstr("rank 1"));
}

TEST_F(CellRunnerTest, StopsAfterALegThatFailedAndNamesTheCall) {
  const RankReport report = run(nullptr, fail_capture);
  EXPECT_EQ(asked_.back(), "graph") << "the instrumented graph leg must not run";
  const CheckResult* deciding = deciding_check(report.checks);
  ASSERT_NE(deciding, nullptr);
  EXPECT_EQ(deciding->verdict, Verdict::fail_capture);
  EXPECT_EQ(deciding->check_id, "LIF-01");
  EXPECT_THAT(deciding->detail, HasSubstr("graph leg ended in phase capture"));
}

TEST_F(CellRunnerTest, StopsWithThePeerThatFailedAndTakesItsVerdict) {
  constexpr int graph_leg_exchange = 5;
  ScriptedGang gang(0, [](const std::string& mine, int call) {
    if (call != graph_leg_exchange) return mine;
    return LegOutcome{ErrorCategory::stream_capture_implicit, Phase::capture, "legacy stream"}
        .encode();
  });
  const RankReport report = run(&gang);
  EXPECT_EQ(asked_.back(), "graph");
  const CheckResult* deciding = deciding_check(report.checks);
  ASSERT_NE(deciding, nullptr);
  EXPECT_EQ(deciding->verdict, Verdict::fail_capture);
  EXPECT_THAT(deciding->detail, HasSubstr("rank 1 of the gang failed"));
}

TEST_F(CellRunnerTest, WaitsForThePeerThatIsStillInALegThatFailedHere) {
  bool told = false;
  ScriptedGang gang(0, [&](const std::string& mine, int) {
    const bool failed = LegOutcome::is_outcome(mine) && LegOutcome::decode(mine).failed();
    if (!failed) return mine;
    if (!std::exchange(told, true)) return workloads::LaunchIntent{.name = "step 2"}.encode();
    return LegOutcome{ErrorCategory::communicator_error, Phase::replay, "peer gone"}.encode();
  });
  const RankReport report = run(&gang, fail_capture);
  EXPECT_TRUE(told);
  const CheckResult* deciding = deciding_check(report.checks);
  ASSERT_NE(deciding, nullptr);
  EXPECT_EQ(deciding->verdict, Verdict::fail_capture);
  EXPECT_EQ(deciding->check_id, "LIF-01");
}

TEST_F(CellRunnerTest, BlamesThePeerForACommunicatorErrorItCaused) {
  ScriptedGang gang(0, [](const std::string& mine, int call) {
    if (call != 4) return mine;
    return LegOutcome{ErrorCategory::stream_capture_unjoined, Phase::capture, "unjoined"}.encode();
  });
  const RankReport report = run(&gang, [](LegRecord& record) {
    record.error = "peer gone";
    record.error_category = ErrorCategory::communicator_error;
    record.error_phase = Phase::replay;
  });
  EXPECT_EQ(deciding_check(report.checks)->verdict, Verdict::fail_capture);
}

TEST_F(CellRunnerTest, JudgesWhatALegThatEndedEarlyLeft) {
  const RankReport report = run(nullptr, [](LegRecord& record) {
    record.error = "fault";
    record.error_category = ErrorCategory::invalid_value;
    record.error_phase = Phase::replay;
    record.address_findings.push_back({.graph = 0, .op = "gemm", .reason = "freed after capture"});
  });
  EXPECT_EQ(deciding_check(report.checks)->verdict, Verdict::fail_stale_address)
      << deciding_check(report.checks)->check_id << ": " << deciding_check(report.checks)->detail;
}

struct FailureCase {
  ErrorCategory category;
  Phase phase;
  Verdict verdict;
};

TEST(LegErrors, EachKindOfEndHasItsVerdict) {
  const LegRequest graph = graph_leg();
  for (const FailureCase& one : {
           FailureCase{ErrorCategory::illegal_address, Phase::replay, Verdict::fail_illegal_access},
           FailureCase{ErrorCategory::illegal_address, Phase::teardown,
                       Verdict::fail_illegal_access},
           FailureCase{ErrorCategory::unknown, Phase::teardown, Verdict::fail_teardown},
           FailureCase{ErrorCategory::communicator_mismatch, Phase::replay,
                       Verdict::fail_comm_nonuniform},
           FailureCase{ErrorCategory::communicator_timeout, Phase::replay, Verdict::hang},
           FailureCase{ErrorCategory::communicator_error, Phase::replay, Verdict::crash},
           FailureCase{ErrorCategory::memory_allocation, Phase::capture, Verdict::fail_capture},
           FailureCase{ErrorCategory::invalid_value, Phase::instantiate, Verdict::fail_capture},
           FailureCase{ErrorCategory::stream_capture_merge, Phase::replay, Verdict::fail_capture},
           FailureCase{ErrorCategory::launch_failure, Phase::replay,
                       Verdict::fail_numeric_mismatch},
       }) {
    const LegFailure failure{graph, {one.category, one.phase, "why"}, 0};
    EXPECT_EQ(judge_failure(failure, 0).verdict, one.verdict) << static_cast<int>(one.category);
  }
}

TEST(LegErrors, AnEagerLegThatFailsSaysNothingAboutGraphs) {
  const LegFailure failure{eager_leg(), {ErrorCategory::launch_failure, Phase::eager, "why"}, 0};
  EXPECT_EQ(judge_failure(failure, 0).verdict, Verdict::fail_suite);
}

TEST(LegErrors, ACellThatDoesNotFitIntoMemoryIsTheEnvironmentsFault) {
  LegFailure failure{eager_leg(), {ErrorCategory::memory_allocation, Phase::setup, "full"}, 0};
  EXPECT_EQ(judge_failure(failure, 0).verdict, Verdict::inconclusive_env);
  failure.leg = graph_leg();
  EXPECT_NE(judge_failure(failure, 0).verdict, Verdict::inconclusive_env);
}

TEST(LegErrors, TravelAsText) {
  const LegOutcome outcome{ErrorCategory::captured_event, Phase::capture, "two words: here"};
  const LegOutcome read = LegOutcome::decode(outcome.encode());
  EXPECT_EQ(read.category, outcome.category);
  EXPECT_EQ(read.phase, outcome.phase);
  EXPECT_EQ(read.error, outcome.error);
  EXPECT_FALSE(LegOutcome::decode(LegOutcome{}.encode()).failed());
  EXPECT_THROW(LegOutcome::decode("nonsense"), InternalError);
  EXPECT_THROW(LegOutcome::decode("a b c"), InternalError);
}

TEST(LegErrors, TheFirstErrorThatIsNoConsequenceExplainsALeg) {
  const std::vector<LegOutcome> outcomes{
      {ErrorCategory::communicator_timeout, Phase::replay, "waited"},
      {ErrorCategory::success, Phase::idle, ""},
      {ErrorCategory::illegal_address, Phase::replay, "fault"},
      {ErrorCategory::launch_failure, Phase::replay, "fault"}};
  const auto failure = find_failure(graph_leg(), outcomes);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->rank, 2);
  EXPECT_FALSE(find_failure(graph_leg(), std::vector<LegOutcome>(3)).has_value());
}

}  // namespace
}  // namespace cgconform::suites
