#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/comparison.hpp"
#include "tests/suites/synthetic_legs.hpp"

namespace cgconform::suites {
namespace {

using testing::HasSubstr;
using workloads::ErrorCategory;
using workloads::LegKind;

/// Two ranks of which this one is real; the other always agrees.
class AgreeingGang final : public workloads::Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const std::string& name() const override { return name_; }
  void send(const workloads::TensorView&, int, workloads::Stream&, std::string) override {}
  void receive(const workloads::TensorView&, int, workloads::Stream&, std::string) override {}
  void all_reduce(const workloads::TensorView&, const workloads::TensorView&, workloads::ReduceOp,
                  workloads::Stream&, std::string) override {}
  void broadcast(const workloads::TensorView&, int, workloads::Stream&, std::string) override {}
  void all_gather(const workloads::TensorView&, const workloads::TensorView&, workloads::Stream&,
                  std::string) override {}
  void reduce_scatter(const workloads::TensorView&, const workloads::TensorView&,
                      workloads::Stream&, std::string) override {}
  std::vector<std::string> exchange(const std::string& mine) override { return {mine, mine}; }
  std::unique_ptr<workloads::Communicator> split(int, const std::string&) override {
    return nullptr;
  }
  ErrorCategory async_error() const override { return ErrorCategory::success; }
  int live_graph_references() const override { return 0; }

 private:
  std::string name_ = "agreeing";
};

/// Judges of legs that are repeated, timed, dumped, or agreed on.
class RepeatedJudgesTest : public testing::Test {
 protected:
  static matrix::Cell validated_cell() {
    matrix::Cell cell = SyntheticLegs::cell();
    cell.shape.eval_interval = 1;
    return cell;
  }
  static matrix::Cell gang_cell() {
    matrix::Cell cell = SyntheticLegs::cell();
    cell.config.pipeline_model_parallel_size = 2;
    return cell;
  }

  CheckResult judge(const char* check_id, const matrix::Cell& cell,
                    const std::function<void(const LegRequest&, LegRecord&)>& spoil) {
    const auto comparator = create_device_comparator(legs_.device());
    const LegSource source = [&](const matrix::Cell& asked, const LegRequest& request) {
      LegRecord record = legs_.healthy(asked, request);
      spoil(request, record);
      return record;
    };
    AgreeingGang gang;
    const RankReport report =
        run_cell(cell, {.cell_id = "synthetic"}, source,
                 {legs_.device(), *comparator, cell.ranks() > 1 ? &gang : nullptr});
    for (const CheckResult& check : report.checks) {
      if (check.check_id == check_id) return check;
    }
    ADD_FAILURE() << check_id << " was not judged";
    return {};
  }

  /// Spoils the timed graph leg.
  CheckResult judge_timed(const char* check_id, const std::function<void(LegRecord&)>& spoil) {
    return judge(check_id, SyntheticLegs::cell(),
                 [&](const LegRequest& request, LegRecord& record) {
                   if (request == timed_graph_leg()) spoil(record);
                 });
  }
  /// Spoils every graph leg of a cell of two ranks.
  CheckResult judge_gang(const char* check_id, const std::function<void(LegRecord&)>& spoil) {
    return judge(check_id, gang_cell(), [&](const LegRequest& request, LegRecord& record) {
      if (request.kind == LegKind::graph) spoil(record);
    });
  }

  void change(LegRecord& record, ObservedQuantity quantity) {
    legs_.write(SyntheticLegs::find(record, quantity, 1).snapshot.view(), -1.0F);
  }

  SyntheticLegs legs_;
};

TEST_F(RepeatedJudgesTest, SeeASecondRunThatDiffers) {
  const CheckResult numbers =
      judge_timed("NUM-30", [&](LegRecord& record) { change(record, ObservedQuantity::weight); });
  EXPECT_EQ(numbers.verdict, Verdict::fail_nondeterminism);
  const CheckResult graphs =
      judge_timed("NUM-30", [](LegRecord& record) { record.graphs[1].nodes[2].label = "other"; });
  EXPECT_EQ(graphs.verdict, Verdict::fail_nondeterminism);
  EXPECT_THAT(graphs.detail, HasSubstr("node 2"));
  EXPECT_EQ(judge_timed("NUM-30", [](LegRecord&) {}).verdict, Verdict::pass);
}

TEST_F(RepeatedJudgesTest, SeeThatValidationChangesTraining) {
  const auto judged = [&](ObservedQuantity quantity) {
    return judge("NUM-25", validated_cell(), [&](const LegRequest& request, LegRecord& record) {
      if (request.kind == LegKind::graph && request.cycles == 0 && !request.without_validation)
        change(record, quantity);
    });
  };
  EXPECT_EQ(judged(ObservedQuantity::weight).verdict, Verdict::fail_numeric_mismatch);
  EXPECT_EQ(judged(ObservedQuantity::rng_state).verdict, Verdict::fail_rng_state);
  EXPECT_EQ(judge("NUM-25", validated_cell(), [](const LegRequest&, LegRecord&) {}).verdict,
            Verdict::pass);
}

TEST_F(RepeatedJudgesTest, FailWhereNothingWasValidated) {
  const CheckResult result =
      judge("NUM-25", validated_cell(), [](const LegRequest&, LegRecord& record) {
        std::erase_if(record.executions,
                      [](const auto& execution) { return execution.validation; });
      });
  EXPECT_EQ(result.verdict, Verdict::fail_coverage);
}

TEST_F(RepeatedJudgesTest, WantEveryTimeOfItsOwn) {
  const auto judged = [&](const std::function<void(workloads::GraphTimes&)>& spoil) {
    return judge_timed("PRF-04", [&](LegRecord& record) { spoil(record.graphs[0].times); });
  };
  EXPECT_EQ(judged([](auto&) {}).verdict, Verdict::pass);
  EXPECT_EQ(judged([](auto& times) { times.capture = 0.0; }).verdict, Verdict::fail_perf);
  EXPECT_EQ(judged([](auto& times) { times.instantiate = 0.0; }).verdict, Verdict::fail_perf);
  EXPECT_EQ(judged([](auto& times) { times.upload = -1.0; }).verdict, Verdict::fail_perf);
  EXPECT_EQ(judged([](auto& times) { times.launches.resize(1); }).verdict, Verdict::fail_perf);
  EXPECT_EQ(judged([](auto& times) { times.launches[0] = -1.0; }).verdict, Verdict::fail_perf);
}

TEST_F(RepeatedJudgesTest, WantTheFirstLaunchTimedWhereNoUploadCameBefore) {
  const auto judged = [&](std::size_t launches) {
    return judge("PRF-04", SyntheticLegs::cell(),
                 [&](const LegRequest& request, LegRecord& record) {
                   if (!request.timed && request.kind == LegKind::graph) {
                     record.graphs[0].times.launches.resize(launches);
                   }
                 })
        .verdict;
  };
  EXPECT_EQ(judged(1), Verdict::pass);
  EXPECT_EQ(judged(0), Verdict::fail_perf);
}

TEST_F(RepeatedJudgesTest, WantEagerAndReplayedStepsTimed) {
  const auto judged = [&](LegKind kind, const std::function<void(LegRecord&)>& spoil) {
    return judge("PRF-04", SyntheticLegs::cell(),
                 [&](const LegRequest& request, LegRecord& record) {
                   if (request.timed && request.kind == kind) spoil(record);
                 })
        .verdict;
  };
  for (const LegKind kind : {LegKind::eager, LegKind::graph}) {
    EXPECT_EQ(judged(kind, [](LegRecord& record) { record.steps.clear(); }), Verdict::fail_perf);
    EXPECT_EQ(judged(kind, [](LegRecord& record) { record.steps[1].device = -1.0; }),
              Verdict::fail_perf);
    EXPECT_EQ(judged(kind, [](LegRecord& record) { record.steps[1].host = 0.0; }),
              Verdict::fail_perf);
  }
  EXPECT_EQ(judged(LegKind::eager, [](LegRecord& record) { record.steps[1].replayed = true; }),
            Verdict::fail_perf);
  EXPECT_EQ(judged(LegKind::graph,
                   [](LegRecord& record) {
                     for (auto& step : record.steps) step.replayed = false;
                   }),
            Verdict::fail_perf);
}

TEST_F(RepeatedJudgesTest, WantTheTimedReplaysToBeTheValidatedOnes) {
  EXPECT_EQ(
      judge_timed("PRF-07", [&](LegRecord& record) { change(record, ObservedQuantity::loss); })
          .verdict,
      Verdict::fail_perf);
  EXPECT_EQ(
      judge_timed("PRF-07", [](LegRecord& record) { record.graphs[0].times.launches.pop_back(); })
          .verdict,
      Verdict::fail_perf);
  EXPECT_EQ(
      judge_timed("PRF-07", [](LegRecord& record) { record.totals.graph_launches += 1; }).verdict,
      Verdict::fail_perf);
  EXPECT_EQ(judge_timed("PRF-07", [](LegRecord&) {}).verdict, Verdict::pass);
}

TEST_F(RepeatedJudgesTest, HoldDumpsAgainstTheDevicesCounts) {
  const auto judged = [&](const std::function<void(workloads::GraphRecord&)>& spoil) {
    return judge("TLG-01", SyntheticLegs::cell(),
                 [&](const LegRequest& request, LegRecord& record) {
                   if (request == instrumented_graph_leg()) spoil(record.graphs[0]);
                 });
  };
  EXPECT_EQ(judged([](auto&) {}).verdict, Verdict::pass);
  EXPECT_EQ(judged([](auto& graph) { graph.size.nodes = 4; }).verdict, Verdict::fail_coverage);
  EXPECT_EQ(judged([](auto& graph) { graph.dot = "digraph { a -> b; a -> c }"; }).verdict,
            Verdict::fail_coverage);
  const CheckResult broken = judged([](auto& graph) { graph.dot = "digraph { a -> "; });
  EXPECT_NE(broken.verdict, Verdict::pass);
  EXPECT_THAT(broken.detail, HasSubstr("DOT dump"));
}

TEST_F(RepeatedJudgesTest, WantAnAgreementBeforeEveryLaunch) {
  EXPECT_EQ(judge_gang("COM-09", [](LegRecord&) {}).verdict, Verdict::pass);
  EXPECT_EQ(judge_gang("COM-09", [](LegRecord& record) { record.agreements.eager -= 1; }).verdict,
            Verdict::fail_coverage);
}

TEST_F(RepeatedJudgesTest, NameRankCommunicatorAndPhaseOfAnAsynchronousError) {
  EXPECT_EQ(judge_gang("COM-22", [](LegRecord&) {}).verdict, Verdict::pass);
  const CheckResult failed = judge_gang("COM-22", [](LegRecord& record) {
    record.polls[0].first_error = ErrorCategory::communicator_error;
  });
  EXPECT_EQ(failed.verdict, Verdict::crash);
  EXPECT_THAT(failed.detail, HasSubstr("rank 0, communicator 'gang', phase eager"));
  EXPECT_EQ(judge_gang("COM-22", [](LegRecord& record) { record.polls.clear(); }).verdict,
            Verdict::fail_coverage);
}

}  // namespace
}  // namespace cgconform::suites
