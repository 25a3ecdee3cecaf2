#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/suites/judges_fixture.hpp"

namespace cgconform::suites {
namespace {

using testing::HasSubstr;
using workloads::ErrorCategory;
using workloads::SlotKind;

TEST_F(JudgesTest, PassAHealthyCell) {
  const RankReport report = run([](const LegRequest&, LegRecord&) {});
  EXPECT_EQ(deciding_check(report.checks), nullptr) << deciding_check(report.checks)->detail;
  EXPECT_GT(report.captures, 0U);
  EXPECT_GT(report.replays, 0U);
  EXPECT_GT(report.comparisons, 0U);
  for (const char* id :
       {"NUM-01", "NUM-02", "NUM-03", "NUM-04", "NUM-06", "NUM-07", "NUM-08", "NUM-17", "NUM-30",
        "MEM-01", "MEM-02", "MEM-03", "MEM-05", "MEM-07", "MEM-09", "MEM-17", "LIF-01", "LIF-07",
        "LIF-17", "CCY-02", "TLG-01", "TLG-03", "SUI-02", "PRF-04", "PRF-07"}) {
    const CheckResult* check = find(report, id);
    ASSERT_NE(check, nullptr) << id;
    EXPECT_EQ(check->verdict, Verdict::pass) << id;
  }
  const std::size_t legs = plan_cell(SyntheticLegs::cell(), check_table()).legs.size();
  EXPECT_EQ(report.phase_milliseconds.at("eager"), static_cast<double>(legs))
      << "legs of one millisecond each";
}

TEST_F(JudgesTest, CallAnEagerCellBaseline) {
  matrix::Cell cell = SyntheticLegs::cell();
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::none;
  int graph_legs = 0;
  const RankReport report = run(
      [&](const LegRequest& request, LegRecord&) { graph_legs += request.kind == LegKind::graph; },
      cell);
  EXPECT_EQ(graph_legs, 0);
  EXPECT_EQ(deciding_check(report.checks), nullptr);
  ASSERT_NE(find(report, "NUM-01"), nullptr);
  EXPECT_EQ(find(report, "NUM-01")->verdict, Verdict::baseline);
  EXPECT_EQ(find(report, "LIF-01"), nullptr);
}

TEST_F(JudgesTest, NameTheFirstDivergingTensor) {
  const RankReport report = run_broken_graph([&](LegRecord& record) {
    change(record, ObservedQuantity::layer_output, 2);
    change(record, ObservedQuantity::loss, 1);
  });
  expect(report, Verdict::fail_numeric_mismatch, "NUM-01");
  const CheckResult* check = find(report, "NUM-01");
  ASSERT_TRUE(check->divergence.has_value());
  EXPECT_EQ(check->divergence->step, 1);
  EXPECT_EQ(check->divergence->tensor, "loss");
  EXPECT_EQ(check->divergence->bad_count, 4);
  EXPECT_EQ(check->divergence->first_bad_index, 0);
  EXPECT_EQ(check->divergence->actual, -1.0);
}

TEST_F(JudgesTest, SeeADifferenceOfOneLegOnly) {
  expect(run_broken_instrumented(
             [&](LegRecord& record) { change(record, ObservedQuantity::layer_output, 1); }),
         Verdict::fail_numeric_mismatch, "NUM-01");
  expect(run([&](const LegRequest& request, LegRecord& record) {
           if (is_plain_graph(request)) change(record, ObservedQuantity::layer_output, 1);
         }),
         Verdict::fail_numeric_mismatch, "NUM-01");
}

TEST_F(JudgesTest, CallAGradientThatDivergesFirstAnAccumulationFault) {
  const RankReport report = run_broken_graph([&](LegRecord& record) {
    change(record, ObservedQuantity::main_grad, 1);
    change(record, ObservedQuantity::weight, 1);
    change(record, ObservedQuantity::loss, 2);
  });
  expect(report, Verdict::fail_grad_accum, "NUM-02");
  EXPECT_EQ(find(report, "NUM-04")->verdict, Verdict::fail_grad_accum);
}

TEST_F(JudgesTest, CallAGradientAfterAWrongInputGradientNoAccumulationFault) {
  expect(run_broken_graph([&](LegRecord& record) {
           change(record, ObservedQuantity::main_grad, 1);
           change(record, ObservedQuantity::layer_grad_input, 1);
         }),
         Verdict::fail_numeric_mismatch, "NUM-02");
}

TEST_F(JudgesTest, SeeWeightsThatDivergeThoughGradientsAreEqual) {
  expect(run_broken_graph([&](LegRecord& record) { change(record, ObservedQuantity::weight, 1); }),
         Verdict::fail_numeric_mismatch, "NUM-03");
  expect(run_broken_graph(
             [&](LegRecord& record) { change(record, ObservedQuantity::optimizer_state, 1); }),
         Verdict::fail_numeric_mismatch, "NUM-03");
}

TEST_F(JudgesTest, HoldNothingAgainstAGraphWhereEagerDoesNotRepeat) {
  expect(run([&](const LegRequest& request, LegRecord& record) {
           if (request == eager_repeat_leg()) change(record, ObservedQuantity::loss, 1);
         }),
         Verdict::fail_nondeterminism, "NUM-01");
}

TEST_F(JudgesTest, FailWhereTheGraphLegLacksATensor) {
  const RankReport report = run_broken_graph([](LegRecord& record) {
    std::erase_if(record.observations, [](const workloads::Observation& observation) {
      return observation.quantity == ObservedQuantity::weight && observation.where.step == 2;
    });
  });
  expect(report, Verdict::fail_coverage, "NUM-03");
  EXPECT_THAT(find(report, "NUM-03")->detail, HasSubstr("has no step 2 layer 0 weight:w"));
}

TEST_F(JudgesTest, AcceptThatAPlainGraphHidesWhatIsInside) {
  const RankReport report = run([](const LegRequest& request, LegRecord& record) {
    if (!is_plain_graph(request)) return;
    std::erase_if(record.observations, [](const workloads::Observation& observation) {
      return observation.quantity == ObservedQuantity::layer_output;
    });
  });
  EXPECT_EQ(deciding_check(report.checks), nullptr);
}

TEST_F(JudgesTest, FailWhereNoLegObservedAnything) {
  const RankReport report =
      run([](const LegRequest&, LegRecord& record) { record.observations.clear(); });
  EXPECT_EQ(find(report, "NUM-01")->verdict, Verdict::fail_coverage);
  EXPECT_EQ(find(report, "SUI-02")->verdict, Verdict::fail_coverage);
  EXPECT_EQ(report.comparisons, 0U);
}

TEST_F(JudgesTest, SeeMasksThatRepeat) {
  const RankReport report = run_broken_instrumented([&](LegRecord& record) {
    for (auto& observation : record.observations) {
      if (observation.quantity == ObservedQuantity::dropout_mask) {
        legs_.write(observation.snapshot.view(), 7.0F);
      }
    }
    change(record, ObservedQuantity::layer_output, 0);
  });
  expect(report, Verdict::fail_rng_state, "NUM-08");
  EXPECT_THAT(find(report, "NUM-08")->detail, HasSubstr("again"));
}

TEST_F(JudgesTest, AcceptThatSmallMasksRepeatByChanceInBothLegs) {
  const RankReport report = run([&](const LegRequest&, LegRecord& record) {
    for (auto& observation : record.observations) {
      if (observation.quantity == ObservedQuantity::dropout_mask) {
        legs_.write(observation.snapshot.view(), 7.0F);
      }
    }
  });
  EXPECT_EQ(find(report, "NUM-08")->verdict, Verdict::pass);
}

TEST_F(JudgesTest, SeeAMaskThatIsNotEagers) {
  expect(run_broken_instrumented(
             [&](LegRecord& record) { change(record, ObservedQuantity::dropout_mask, 1); }),
         Verdict::fail_rng_state, "NUM-08");
}

TEST_F(JudgesTest, FailWhereNoMaskWasSeenThoughTheCellDropsOut) {
  const RankReport report = run([](const LegRequest&, LegRecord& record) {
    std::erase_if(record.observations, [](const workloads::Observation& observation) {
      return observation.quantity == ObservedQuantity::dropout_mask;
    });
  });
  expect(report, Verdict::fail_coverage, "NUM-08");
}

TEST_F(JudgesTest, PutAStaleAddressBeforeTheNumbersItSpoils) {
  const RankReport report = run_broken_graph([&](LegRecord& record) {
    record.address_findings.push_back({.graph = 0,
                                       .node = 1,
                                       .op = "gemm",
                                       .operand = "a",
                                       .step = 1,
                                       .state = workloads::AddressState::freed,
                                       .captured_generation = 4,
                                       .reason = "freed after capture"});
    change(record, ObservedQuantity::loss, 1);
    record.slots.push_back({SlotKind::output, {.step = 1, .tensor = "output"}, 1, 2});
  });
  expect(report, Verdict::fail_stale_address, "MEM-07");
  EXPECT_THAT(find(report, "MEM-07")->detail, HasSubstr("node 1 (gemm) operand 'a'"));
  EXPECT_THAT(find(report, "MEM-07")->detail, HasSubstr("freed after capture"));
}

TEST_F(JudgesTest, FailWhereNoOperandCouldBeAudited) {
  expect(run_broken_graph([](LegRecord& record) {
           for (auto& graph : record.graphs) {
             for (auto& node : graph.nodes) node.operands.clear();
           }
         }),
         Verdict::fail_coverage, "MEM-07");
}

TEST_F(JudgesTest, TellAStaleInputFromAnOverwrittenSlot) {
  const auto spoil = [&](SlotKind kind) {
    return run_broken_instrumented([kind](LegRecord& record) {
      for (auto& slot : record.slots) {
        if (slot.kind == kind) slot.hash_at_use = 6;
      }
    });
  };
  expect(spoil(SlotKind::static_input), Verdict::fail_stale_input, "MEM-09");
  expect(spoil(SlotKind::output), Verdict::fail_overwrite, "MEM-09");
  expect(spoil(SlotKind::saved_activation), Verdict::fail_overwrite, "MEM-09");
  expect(spoil(SlotKind::weight_grad), Verdict::fail_overwrite, "MEM-09");
}

TEST_F(JudgesTest, FailWhereNoSlotWasHashed) {
  expect(run_broken_instrumented([](LegRecord& record) { record.slots.clear(); }),
         Verdict::fail_coverage, "MEM-09");
}

TEST_F(JudgesTest, SeeAMissingEdge) {
  const RankReport report = run_broken_graph([](LegRecord& record) {
    record.edge_findings.push_back(
        {.graph = 1, .producer = 0, .consumer = 2, .operand = "source", .labels = "a, b"});
  });
  expect(report, Verdict::fail_missing_edge, "CCY-02");
}

TEST_F(JudgesTest, NameTheCallThatFailedInAWindow) {
  const RankReport report = run_broken_graph([](LegRecord& record) {
    record.captures[1].first_failure = ErrorCategory::stream_capture_unsupported;
    record.captures[1].first_failed_call = "synchronize";
  });
  expect(report, Verdict::fail_capture, "LIF-01");
  EXPECT_THAT(find(report, "LIF-01")->detail, HasSubstr("synchronize failed"));
}

TEST_F(JudgesTest, FailACaptureThatWasNotAudited) {
  expect(run_broken_graph([](LegRecord& record) { record.captures[0].calls = 0; }),
         Verdict::fail_capture, "LIF-01");
  expect(run_broken_graph([](LegRecord& record) { record.captures.pop_back(); }),
         Verdict::fail_capture, "LIF-01");
  expect(run_broken_graph([](LegRecord& record) {
           record.captures[0].end_status = ErrorCategory::stream_capture_unjoined;
         }),
         Verdict::fail_capture, "LIF-01");
}

TEST_F(JudgesTest, SeeWorkThatRunsWhileItIsCaptured) {
  expect(run_broken_graph([](LegRecord& record) { record.captures[0].eager_launches_inside = 1; }),
         Verdict::fail_capture, "LIF-17");
  expect(run_broken_graph([](LegRecord& record) { record.captures[0].graph_nodes_run_inside = 1; }),
         Verdict::fail_capture, "LIF-17");
  expect(run_broken_graph([](LegRecord& record) { record.captures[0].nodes_ran_inside = true; }),
         Verdict::fail_capture, "LIF-17");
  const RankReport changed =
      run_broken_graph([](LegRecord& record) { record.captures[0].hash_after = 18; });
  EXPECT_EQ(find(changed, "LIF-17")->verdict, Verdict::fail_capture);
}

TEST_F(JudgesTest, SeeWorkThatIsMissingInAGraphOrItsReplays) {
  expect(run_broken_graph([](LegRecord& record) { record.captures[0].eager_body_launches = 4; }),
         Verdict::fail_coverage, "LIF-17");
  expect(run_broken_graph([](LegRecord& record) { record.totals.graph_nodes_run -= 1; }),
         Verdict::fail_coverage, "LIF-17");
}

TEST_F(JudgesTest, SeeAGraphThatWasNotCapturedOrNotWhereItShould) {
  expect(run_broken_graph([](LegRecord& record) { record.graphs[0].capture_step = 1; }),
         Verdict::fail_coverage, "TLG-03");
  expect(run_broken_graph([](LegRecord& record) { std::swap(record.graphs[0], record.graphs[1]); }),
         Verdict::fail_coverage, "TLG-03");
  expect(run_broken_graph([](LegRecord& record) { record.graphs[0].launches -= 1; }),
         Verdict::fail_coverage, "LIF-17");
}

TEST_F(JudgesTest, SeeASilentEagerExecution) {
  const auto break_replay = [&](const std::function<void(workloads::ExecutionRecord&)>& spoil) {
    return run_broken_graph([&](LegRecord& record) {
      for (auto& execution : record.executions) {
        if (!execution.replayed) continue;
        spoil(execution);
        return;
      }
    });
  };
  expect(break_replay([](auto& execution) { execution.replayed = false; }), Verdict::fail_coverage,
         "TLG-03");
  expect(break_replay([](auto& execution) { execution.graph_launches = 0; }),
         Verdict::fail_coverage, "TLG-03");
  expect(break_replay([](auto& execution) { execution.host_executions = 1; }),
         Verdict::fail_coverage, "TLG-03");
  expect(break_replay([](auto& execution) { execution.eager_launches = 3; }),
         Verdict::fail_coverage, "TLG-03");
  expect(break_replay([](auto& execution) { execution.graph = 3; }), Verdict::fail_coverage,
         "TLG-03");
}

TEST_F(JudgesTest, SeeAnExecutionTooFewOrTooMany) {
  expect(run_broken_graph([](LegRecord& record) { record.executions.pop_back(); }),
         Verdict::fail_coverage, "TLG-03");
  expect(run_broken_graph(
             [](LegRecord& record) { record.executions.push_back(record.executions.back()); }),
         Verdict::fail_coverage, "TLG-03");
}

TEST_F(JudgesTest, NeverPassAGraphCellThatCapturedOrReplayedNothing) {
  expect(run_broken_graph([](LegRecord& record) {
           record.graphs.clear();
           record.captures.clear();
           record.executions.clear();
           record.totals = {};
         }),
         Verdict::fail_coverage, "CON-17");
  const RankReport report =
      run_broken_graph([](LegRecord& record) { record.totals.graph_launches = 0; });
  EXPECT_EQ(find(report, "SUI-02")->verdict, Verdict::fail_coverage);
}

}  // namespace
}  // namespace cgconform::suites
