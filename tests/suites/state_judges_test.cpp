#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/suites/judges_fixture.hpp"

namespace cgconform::suites {
namespace {

using testing::HasSubstr;

matrix::Cell recomputed_cell() {
  matrix::Cell cell = SyntheticLegs::cell();
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.recompute_granularity = matrix::RecomputeGranularity::full;
  cell.config.recompute_method = matrix::RecomputeMethod::uniform;
  cell.config.recompute_num_layers = 1;
  return cell;
}

matrix::Cell graphed_optimizer_cell() {
  matrix::Cell cell = SyntheticLegs::cell();
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.optimizer_cuda_graph = true;
  return cell;
}

class StateJudges : public JudgesTest {
 protected:
  static Verdict verdict_of(const RankReport& report, std::string_view id) {
    const CheckResult* check = find(report, id);
    EXPECT_NE(check, nullptr) << id;
    return check == nullptr ? Verdict::skip : check->verdict;
  }
  static Break none() {
    return [](const LegRequest&, LegRecord&) {};
  }
  static void drop(LegRecord& record, ObservedQuantity quantity) {
    std::erase_if(record.observations, [&](const workloads::Observation& observation) {
      return observation.quantity == quantity;
    });
  }
};

TEST_F(StateJudges, PassHealthyCellsOfEveryKind) {
  for (const matrix::Cell& cell : {recomputed_cell(), graphed_optimizer_cell()}) {
    const RankReport report = run(none(), cell);
    const CheckResult* deciding = deciding_check(report.checks);
    EXPECT_EQ(deciding, nullptr) << deciding->check_id << ": " << deciding->detail;
  }
  const RankReport recomputed = run(none(), recomputed_cell());
  EXPECT_EQ(verdict_of(recomputed, "NUM-12"), Verdict::pass);
  EXPECT_EQ(verdict_of(recomputed, "NUM-13"), Verdict::pass);
  EXPECT_EQ(verdict_of(run(none(), graphed_optimizer_cell()), "NUM-32"), Verdict::pass);
}

TEST_F(StateJudges, NameTheStateThatACaptureChanged) {
  const RankReport report = run_broken_instrumented([](LegRecord& record) {
    record.captures[1].hash_after = 18;
    record.captures[1].changed = "weight of w";
  });
  expect(report, Verdict::fail_capture, "NUM-06");
  EXPECT_THAT(find(report, "NUM-06")->detail, HasSubstr("weight of w"));
}

TEST_F(StateJudges, FailWhereStateWasNotHashedAroundACapture) {
  expect(run_broken_instrumented([](LegRecord& record) {
           record.captures[0].hash_before = 0;
           record.captures[0].hash_after = 0;
         }),
         Verdict::fail_coverage, "NUM-06");
}

TEST_F(StateJudges, SeeATrajectoryThatDependsOnTheWarmUp) {
  for (const std::int32_t warmup : {0, 1, 3, 11}) {
    const RankReport report = run([&](const LegRequest& request, LegRecord& record) {
      if (request.warmup_steps == warmup) change(record, ObservedQuantity::weight, 1);
    });
    expect(report, Verdict::fail_numeric_mismatch, "NUM-07");
    EXPECT_THAT(find(report, "NUM-07")->detail, HasSubstr("warm-up " + std::to_string(warmup)));
  }
}

TEST_F(StateJudges, SeeAMaskThatIsNotDrawnAgainAsItWas) {
  expect(run(
             [&](const LegRequest& request, LegRecord& record) {
               if (request == instrumented_graph_leg()) {
                 change(record, ObservedQuantity::recomputed_mask, 2);
               }
             },
             recomputed_cell()),
         Verdict::fail_rng_recompute, "NUM-12");
}

TEST_F(StateJudges, SeeABackwardThatDrawsNoMaskAgain) {
  const RankReport report =
      run([&](const LegRequest&,
              LegRecord& record) { drop(record, ObservedQuantity::recomputed_mask); },
          recomputed_cell());
  expect(report, Verdict::fail_rng_recompute, "NUM-12");
  EXPECT_THAT(find(report, "NUM-12")->detail, HasSubstr("did not draw"));
}

TEST_F(StateJudges, BlameRecomputeForTheRandomStateItMovedOn) {
  const RankReport report = run(
      [&](const LegRequest& request, LegRecord& record) {
        if (request != instrumented_graph_leg()) return;
        change(record, ObservedQuantity::recomputed_mask, 1);
        change(record, ObservedQuantity::dropout_mask, 2);
        change(record, ObservedQuantity::rng_state, 1);
      },
      recomputed_cell());
  EXPECT_EQ(verdict_of(report, "NUM-08"), Verdict::fail_rng_recompute);
}

TEST_F(StateJudges, SeeGradientsThatDependOnRecompute) {
  const RankReport report = run(
      [&](const LegRequest& request, LegRecord& record) {
        if (request.without_recompute && request.kind == LegKind::graph) {
          change(record, ObservedQuantity::main_grad, 1);
        }
      },
      recomputed_cell());
  expect(report, Verdict::fail_numeric_mismatch, "NUM-13");
}

TEST_F(StateJudges, FailWhereRecomputeLaunchesNothing) {
  const RankReport report =
      run([](const LegRequest&, LegRecord& record) { record.totals.eager_launches = 100; },
          recomputed_cell());
  expect(report, Verdict::fail_coverage, "NUM-13");
}

TEST_F(StateJudges, SeeAGraphThatRecomputesNothing) {
  const RankReport report = run(
      [](const LegRequest&, LegRecord& record) {
        for (auto& graph : record.graphs) {
          for (auto& node : graph.nodes) node.label.clear();
        }
      },
      recomputed_cell());
  expect(report, Verdict::fail_coverage, "TLG-03");
  EXPECT_THAT(find(report, "TLG-03")->detail, HasSubstr("recompute"));
}

TEST_F(StateJudges, CallACounterThatStandsStillFrozen) {
  const RankReport report = run_broken_graph(
      [&](LegRecord& record) { change(record, ObservedQuantity::training_state, 1); });
  expect(report, Verdict::fail_state_frozen, "NUM-17");
}

TEST_F(StateJudges, CallAWrongUpdateFrozenWhereTheOptimizerIsCaptured) {
  const auto spoil = [&](const LegRequest& request, LegRecord& record) {
    if (request.kind == LegKind::graph && request.cycles == 0)
      change(record, ObservedQuantity::weight, 1);
  };
  expect(run(spoil, graphed_optimizer_cell()), Verdict::fail_state_frozen, "NUM-17");
  EXPECT_EQ(verdict_of(run(spoil), "NUM-17"), Verdict::fail_numeric_mismatch);
}

TEST_F(StateJudges, HoldNothingAgainstStateThatFollowsWrongGradients) {
  const RankReport report = run_broken_graph([&](LegRecord& record) {
    change(record, ObservedQuantity::main_grad, 1);
    change(record, ObservedQuantity::training_state, 1);
  });
  EXPECT_EQ(verdict_of(report, "NUM-17"), Verdict::pass);
}

TEST_F(StateJudges, SeeALongRunOfGraphsThatDrifts) {
  expect(run(
             [&](const LegRequest& request, LegRecord& record) {
               if (request.kind == LegKind::graph && request.steps >= 20) {
                 change(record, ObservedQuantity::loss, 15);
               }
             },
             graphed_optimizer_cell()),
         Verdict::fail_numeric_mismatch, "NUM-32");
}

TEST_F(StateJudges, FailWhereTheLongRunReplaysTooLittle) {
  const RankReport report = run(
      [](const LegRequest& request, LegRecord& record) {
        if (request.kind == LegKind::graph && request.steps >= 20) record.graphs.pop_back();
      },
      graphed_optimizer_cell());
  EXPECT_EQ(verdict_of(report, "NUM-32"), Verdict::fail_coverage);
}

}  // namespace
}  // namespace cgconform::suites
