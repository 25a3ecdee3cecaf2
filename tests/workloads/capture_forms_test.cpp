#include <cstring>
#include <string>

#include <gmock/gmock.h>

#include "tests/workloads/sharded_results.hpp"
#include "workloads/capture/capture_plan.hpp"
#include "workloads/lifecycle/graphed_callables.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CaptureForm;
using ::testing::IsEmpty;

matrix::Cell formed(CaptureForm form, std::int32_t warmup = 1) {
  matrix::Cell cell = small_cell(matrix::CudaGraphImpl::full_iteration);
  cell.config.cuda_graph_warmup_steps = warmup;
  cell.shape.eval_interval = 2;
  cell.shape.capture_form = form;
  return cell;
}

class CaptureForms : public OneRankLegs {
 protected:
  std::vector<std::string> differences_from_eager(const matrix::Cell& cell) {
    const LegRecord expected = run(cell, eager);
    const LegRecord actual = run(cell, graph);
    EXPECT_EQ(actual.error, "");
    EXPECT_FALSE(actual.graphs.empty());
    return differences(bytes_of(expected, device()), bytes_of(actual, device()), false);
  }
};

TEST_F(CaptureForms, EqualEagerForEveryWarmup) {
  for (const CaptureForm form :
       {CaptureForm::whole_step, CaptureForm::partitioned, CaptureForm::callables}) {
    for (const std::int32_t warmup : {0, 1, 3}) {
      EXPECT_THAT(differences_from_eager(formed(form, warmup)), IsEmpty())
          << static_cast<int>(form) << " warm-up " << warmup;
    }
  }
}

TEST_F(CaptureForms, OfFp16ScaleAndSkipInsideTheGraph) {
  matrix::Cell cell = formed(CaptureForm::whole_step);
  cell.config.params_dtype = matrix::ParamsDtype::fp16;
  EXPECT_THAT(differences_from_eager(cell), IsEmpty());
}

TEST_F(CaptureForms, WholeStepIsOneGraphThatHoldsTheOptimizer) {
  const LegRecord record = run(formed(CaptureForm::whole_step), graph);
  std::size_t training = 0;
  for (const GraphRecord& captured : record.graphs) {
    if (captured.name != "iteration training") continue;
    ++training;
    bool steps = false;
    for (const GraphNode& node : captured.nodes) steps = steps || node.op_name == "adam_step";
    EXPECT_TRUE(steps) << "no node steps the weights";
  }
  EXPECT_EQ(training, 1U);
}

TEST_F(CaptureForms, PartedIterationsHaveAGraphMoreThanMicroBatches) {
  const matrix::Cell cell = formed(CaptureForm::partitioned);
  const LegRecord record = run(cell, graph);
  std::int32_t parts = 0;
  for (const GraphRecord& captured : record.graphs) {
    if (captured.name.starts_with("iteration training part")) ++parts;
  }
  EXPECT_EQ(parts, cell.config.num_microbatches + 1);
}

TEST_F(CaptureForms, PartedIterationsLetTheHostCheckEveryLoss) {
  matrix::Cell cell = formed(CaptureForm::partitioned);
  cell.config.check_for_nan_in_loss = true;
  EXPECT_THAT(differences_from_eager(cell), IsEmpty());
  cell.shape.capture_form = CaptureForm::configured;
  const LegRecord whole = run(cell, graph);
  EXPECT_EQ(whole.error_phase, Phase::capture) << "a check of the host is refused in a capture";
  EXPECT_NE(whole.error, "");
}

TEST_F(CaptureForms, CallablesOfAllLayersReplayOnePairForEveryMicroBatch) {
  const matrix::Cell cell = formed(CaptureForm::callables, 3);
  const LegRecord record = run(cell, graph);
  ASSERT_EQ(record.error, "");
  ASSERT_EQ(record.graphs.size(), 2U);
  EXPECT_TRUE(record.graphs[0].forward);
  EXPECT_FALSE(record.graphs[1].forward);
  const auto replays =
      static_cast<std::uint64_t>(plan_capture(cell).training_steps * cell.config.num_microbatches);
  EXPECT_EQ(record.graphs[0].launches, replays) << "from the first step on";
  EXPECT_EQ(record.graphs[1].launches, replays);
}

TEST_F(CaptureForms, CallablesOfAllLayersLeaveOtherShapesToEagerCode) {
  matrix::Cell cell = formed(CaptureForm::callables);
  cell.config.micro_batch_size = 2;
  cell.shape.last_batch = matrix::LastBatch::eager;
  EXPECT_THAT(differences_from_eager(cell), IsEmpty());
}

TEST_F(CaptureForms, CallablesOfAllLayersRecomputeInTheirBackward) {
  matrix::Cell cell = formed(CaptureForm::callables);
  cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
  cell.config.recompute_modules = {matrix::RecomputeModule::core_attn};
  EXPECT_THAT(differences_from_eager(cell), IsEmpty());
  const auto nodes = [&] { return run(cell, graph).graphs.at(1).nodes.size(); };
  const std::size_t recomputing = nodes();
  cell.config.recompute_granularity = matrix::RecomputeGranularity::none;
  EXPECT_GT(recomputing, nodes());
}

TEST_F(CaptureForms, InstrumentedLegsFindNothing) {
  for (const CaptureForm form :
       {CaptureForm::whole_step, CaptureForm::partitioned, CaptureForm::callables}) {
    const matrix::Cell cell = formed(form);
    const LegRecord expected = run(cell, instrumented_eager);
    const LegRecord actual = run(cell, instrumented_graph);
    ASSERT_EQ(actual.error, "");
    EXPECT_THAT(differences(bytes_of(expected, device()), bytes_of(actual, device())), IsEmpty());
    expect_no_findings(actual);
  }
}

TEST_F(CaptureForms, CapturesWithoutGraphSafeTrackersFreezeTheirDraws) {
  matrix::Cell cell = formed(CaptureForm::configured);
  cell.config.use_te_rng_tracker = false;
  EXPECT_THAT(differences_from_eager(cell), ::testing::Not(IsEmpty()));
}

TEST(CaptureFormsOfRanks, EqualEagerOnTensorParallelRanksAndReplicas) {
  for (const CaptureForm form : {CaptureForm::partitioned, CaptureForm::callables}) {
    for (const Layout& layout : {Layout{.parts = 2}, Layout{.parts = 1, .replicas = 2}}) {
      matrix::Cell cell = spread_cell(layout, matrix::CudaGraphImpl::full_iteration);
      cell.config.num_attention_heads = 2;
      cell.shape.capture_form = form;
      for (const RankLeg& rank : expect_graphs_equal_eager(cell)) {
        EXPECT_GT(rank.record.agreements.captures, 0U) << "ranks capture together";
      }
    }
  }
}

class Restart : public OneRankLegs {
 protected:
  std::vector<std::string> differences_of_restart(const matrix::Cell& cell, FaultSwitches faults) {
    const LegRecord expected = run(cell, {.steps = 8});
    const LegRecord actual =
        run(cell, {.steps = 8, .restart_after = 3, .kind = LegKind::graph}, faults);
    EXPECT_EQ(actual.error, "");
    EXPECT_FALSE(actual.graphs.empty());
    return differences(bytes_of(expected, device()), bytes_of(actual, device()), false);
  }
};

TEST_F(Restart, GoesOnAsIfNothingHadHappened) {
  for (const matrix::CudaGraphImpl impl :
       {matrix::CudaGraphImpl::local, matrix::CudaGraphImpl::transformer_engine,
        matrix::CudaGraphImpl::full_iteration}) {
    matrix::Cell cell = small_cell(impl);
    cell.shape.eval_interval = 2;
    EXPECT_THAT(differences_of_restart(cell, {}), IsEmpty()) << static_cast<int>(impl);
    cell.config.params_dtype = matrix::ParamsDtype::fp16;
    EXPECT_THAT(differences_of_restart(cell, {}), IsEmpty()) << static_cast<int>(impl) << " fp16";
  }
}

TEST_F(Restart, ThatForgetsItsStepIsSeen) {
  FaultSwitches faults;
  faults.turn_on(Fault::f11f_restart_forgets_step);
  EXPECT_THAT(differences_of_restart(small_cell(matrix::CudaGraphImpl::local), faults),
              ::testing::Not(IsEmpty()));
}

std::vector<std::byte> bytes_of_tensor(Device& device, const Buffer& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.view().bytes()));
  device.create_stream("test download")->download(bytes.data(), tensor.view());
  return bytes;
}

TEST(GraphedCallables, HandOutWhatEagerCodeDoes) {
  const auto device = create_reference_device({.arena_bytes = 64 << 20});
  for (const bool trained : {false, true}) {
    for (const std::int32_t warmups : {3, 11}) {
      const CallableRequest request{.trained = trained, .warmups = warmups, .calls = 4, .seed = 3};
      const CallableRecord record = run_graphed_callables(*device, request, nullptr);
      EXPECT_EQ(record.ran_at_capture, 0U);
      EXPECT_EQ(record.replays, trained ? 8U : 4U);
      ASSERT_EQ(record.eager.size(), record.graphed.size());
      for (std::size_t i = 0; i < record.eager.size(); ++i) {
        EXPECT_EQ(record.eager[i].first, record.graphed[i].first);
        EXPECT_EQ(bytes_of_tensor(*device, record.eager[i].second),
                  bytes_of_tensor(*device, record.graphed[i].second))
            << record.eager[i].first;
      }
    }
  }
}

}  // namespace
}  // namespace cgconform::workloads::testing
