#include <algorithm>
#include <set>
#include <utility>

#include "tests/workloads/pipeline_legs.hpp"
#include "workloads/capture/transformer_engine_callable.hpp"
#include "workloads/faults/fault_table.hpp"
#include "workloads/parallel/capture_order.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using testing::small_cell;

constexpr LegRequest eager{};
constexpr LegRequest graph{.kind = LegKind::graph, .replay_seed = 5};
constexpr LegRequest instrumented_eager{.instrumented = true};
constexpr LegRequest instrumented_graph{
    .kind = LegKind::graph, .instrumented = true, .replay_seed = 6};

matrix::Cell callable_cell(matrix::CudaGraphScope scope = {}) {
  matrix::Cell cell = small_cell(CudaGraphImpl::transformer_engine);
  cell.config.cuda_graph_scope = scope;
  return cell;
}

matrix::Cell pipeline_cell(std::int32_t stages, std::int32_t microbatches) {
  matrix::Cell cell = callable_cell();
  cell.config.num_layers = 4;
  cell.config.pipeline_model_parallel_size = stages;
  cell.config.num_microbatches = microbatches;
  return cell;
}

/// The leg of a cell of one rank, without snapshots.
LegRecord run_one(const matrix::Cell& cell, const LegRequest& request) {
  return std::move(testing::run_ranks(cell, request).front().record);
}

std::vector<std::string> graph_names(const LegRecord& record) {
  std::vector<std::string> names;
  for (const GraphRecord& captured : record.graphs) names.push_back(captured.name);
  return names;
}

/// Both kinds of graph leg of a cell equal the eager ones on every rank.
void expect_equal_to_eager(const matrix::Cell& cell) {
  for (const auto& [reference, request] :
       {std::pair{eager, graph}, std::pair{instrumented_eager, instrumented_graph}}) {
    const auto expected = testing::run_ranks(cell, reference);
    const auto actual = testing::run_ranks(cell, request);
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      ASSERT_EQ(actual[rank].record.error, "");
      EXPECT_FALSE(actual[rank].record.graphs.empty());
      EXPECT_EQ(testing::differences(expected[rank].bytes, actual[rank].bytes),
                std::vector<std::string>{})
          << "rank " << rank;
      if (request.instrumented) testing::expect_no_findings(actual[rank].record);
    }
  }
}

class CallableScopes : public ::testing::TestWithParam<matrix::CudaGraphScope> {};

TEST_P(CallableScopes, EqualEagerWithDropoutAndValidation) {
  matrix::Cell cell = callable_cell(GetParam());
  cell.shape.eval_interval = 2;
  expect_equal_to_eager(cell);
}

TEST_P(CallableScopes, EqualEagerInAPipelineInDoublePrecision) {
  matrix::Cell cell = pipeline_cell(2, 3);
  cell.config.cuda_graph_scope = GetParam();
  cell.config.params_dtype = matrix::ParamsDtype::fp64;
  cell.shape.optimizer = matrix::Optimizer::sgd;
  expect_equal_to_eager(cell);
}

TEST_P(CallableScopes, CaptureRunsNothingChangesNothingAndMissesNothing) {
  const LegRecord record = run_one(callable_cell(GetParam()), instrumented_graph);
  ASSERT_FALSE(record.captures.empty());
  for (std::size_t i = 0; i < record.captures.size(); ++i) {
    const CaptureAudit& audit = record.captures[i];
    EXPECT_EQ(audit.eager_launches_inside, 0U) << audit.graph;
    EXPECT_EQ(audit.graph_nodes_run_inside, 0U) << audit.graph;
    EXPECT_EQ(audit.hash_before, audit.hash_after) << audit.graph;
    EXPECT_NE(audit.hash_before, 0U) << audit.graph;
    const auto& nodes = record.graphs[i].nodes;
    const auto work = std::count_if(nodes.begin(), nodes.end(), [](const GraphNode& node) {
      return node.kind != NodeKind::empty;
    });
    EXPECT_EQ(audit.eager_body_launches, static_cast<std::uint64_t>(work)) << audit.graph;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Scopes, CallableScopes,
    ::testing::Values(matrix::CudaGraphScope{}, matrix::CudaGraphScope{CudaGraphModule::attn},
                      matrix::CudaGraphScope{CudaGraphModule::mlp},
                      matrix::CudaGraphScope{CudaGraphModule::attn, CudaGraphModule::mlp}),
    [](const auto& row) {
      const bool attn = row.param.contains(CudaGraphModule::attn);
      const bool mlp = row.param.contains(CudaGraphModule::mlp);
      return std::string(attn ? "attn" : "") + (mlp ? "mlp" : "") +
             (row.param.empty() ? "layer" : "");
    });

TEST(Callables, EqualEagerForEveryWarmupAndNumberOfMicrobatches) {
  for (const std::int32_t warmup : {0, 2, 3}) {
    for (const std::int32_t microbatches : {1, 8}) {
      for (const std::int32_t stages : {1, 2}) {
        SCOPED_TRACE(::testing::Message() << "warm-up " << warmup << ", micro-batches "
                                          << microbatches << ", stages " << stages);
        matrix::Cell cell = pipeline_cell(stages, microbatches);
        cell.config.cuda_graph_warmup_steps = warmup;
        const auto expected = testing::run_ranks(cell, eager);
        const auto actual = testing::run_ranks(cell, graph);
        for (std::size_t rank = 0; rank < actual.size(); ++rank) {
          ASSERT_EQ(actual[rank].record.error, "");
          EXPECT_EQ(testing::differences(expected[rank].bytes, actual[rank].bytes),
                    std::vector<std::string>{});
        }
      }
    }
  }
}

TEST(Callables, AreCapturedJustBeforeTheStepThatFollowsTheWarmup) {
  for (const std::int32_t warmup : {0, 1, 3}) {
    matrix::Cell cell = callable_cell();
    cell.config.cuda_graph_warmup_steps = warmup;
    const LegRecord record = run_one(cell, graph);
    ASSERT_EQ(record.error, "");
    ASSERT_FALSE(record.graphs.empty());
    for (const GraphRecord& captured : record.graphs) EXPECT_EQ(captured.capture_step, warmup);
    std::set<std::int32_t> replayed_steps;
    for (const ExecutionRecord& execution : record.executions) {
      EXPECT_EQ(execution.replayed, execution.step >= warmup);
      if (execution.replayed) replayed_steps.insert(execution.step);
    }
    EXPECT_GE(replayed_steps.size(), 3U);
  }
}

TEST(Callables, AreNeverCapturedWithANegativeWarmup) {
  matrix::Cell cell = callable_cell();
  cell.config.cuda_graph_warmup_steps = -1;
  const LegRecord record = run_one(cell, graph);
  EXPECT_EQ(record.error, "");
  EXPECT_TRUE(record.graphs.empty());
}

TEST(Callables, OfOneStageAreCapturedForASingleMicrobatchAndServeAll) {
  const LegRecord record = run_one(callable_cell(), graph);
  EXPECT_EQ(
      graph_names(record),
      (std::vector<std::string>{"layer 0 forward microbatch 0", "layer 1 forward microbatch 0",
                                "layer 1 backward microbatch 0", "layer 0 backward microbatch 0"}));
  for (const GraphRecord& captured : record.graphs) EXPECT_EQ(captured.launches, 3U * 3U);
}

TEST(Callables, OfAPipelineAreCapturedInTheOrderOfTheScheduleAndReplayedInIt) {
  constexpr std::int32_t stages = 2;
  constexpr std::int32_t microbatches = 4;
  const auto legs = testing::run_ranks(pipeline_cell(stages, microbatches), graph);
  for (std::int32_t rank = 0; rank < stages; ++rank) {
    const CaptureOrder order =
        capture_order({.pipeline_stages = stages, .rank = rank, .microbatches = microbatches});
    std::vector<std::string> expected;
    std::int32_t forwards = 0;
    std::int32_t backwards = 0;
    for (const std::int32_t entry : order.order) {
      const bool forward = entry > 0;
      const std::int32_t microbatch = forward ? forwards++ : backwards++;
      for (const std::int32_t layer : forward ? std::vector{0, 1} : std::vector{1, 0}) {
        expected.push_back("layer " + std::to_string(2 * rank + layer) +
                           (forward ? " forward" : " backward") + " microbatch " +
                           std::to_string(microbatch));
      }
    }
    const LegRecord& record = legs[static_cast<std::size_t>(rank)].record;
    EXPECT_EQ(graph_names(record), expected);
    // Every replayed step launches the graphs in the order of their capture, each once.
    std::vector<std::int32_t> launched;
    for (const ExecutionRecord& execution : record.executions) {
      if (execution.replayed && execution.step == 2) launched.push_back(execution.graph);
    }
    ASSERT_EQ(launched.size(), record.graphs.size());
    for (std::size_t i = 0; i < launched.size(); ++i) {
      EXPECT_EQ(launched[i], static_cast<std::int32_t>(i));
    }
  }
}

TEST(Callables, OfAModuleLeaveTheRestOfTheLayerEager) {
  const LegRecord record = run_one(callable_cell({CudaGraphModule::attn}), graph);
  std::size_t attention = 0;
  std::size_t mlp = 0;
  for (const ExecutionRecord& execution : record.executions) {
    if (execution.step < 1) {
      EXPECT_EQ(execution.scope, "");
      continue;
    }
    EXPECT_EQ(execution.replayed, execution.scope == "attn");
    (execution.scope == "attn" ? attention : mlp) += 1;
  }
  EXPECT_GT(attention, 0U);
  EXPECT_EQ(attention, mlp);
  for (const GraphRecord& captured : record.graphs) EXPECT_EQ(captured.scope, "attn");
}

TEST(Callables, LetValidationRunEagerlyAndReplayAgainAfterIt) {
  matrix::Cell cell = callable_cell();
  cell.shape.eval_interval = 1;
  cell.shape.eval_iters = 2;
  const LegRecord record = run_one(cell, graph);
  std::size_t validations = 0;
  for (const ExecutionRecord& execution : record.executions) {
    if (execution.validation) ++validations;
    EXPECT_EQ(execution.replayed, !execution.validation && execution.step >= 1);
  }
  EXPECT_EQ(validations, 4U * 2U * 2U);
}

TEST(Callables, AreDestroyedBeforeTheirMemoryAndLeaveNothing) {
  for (const auto pools : {matrix::GraphPool::shared, matrix::GraphPool::separate}) {
    matrix::Cell cell = pipeline_cell(2, 4);
    cell.platform.graph_pool = pools;
    for (const testing::RankLeg& leg : testing::run_ranks(cell, graph)) {
      ASSERT_EQ(leg.record.error, "");
      EXPECT_EQ(leg.record.live_bytes_after_teardown, 0);
      std::set<std::int32_t> orders;
      for (const GraphRecord& captured : leg.record.graphs) {
        EXPECT_GE(captured.destroy_order, 0);
        orders.insert(captured.destroy_order);
      }
      EXPECT_EQ(orders.size(), leg.record.graphs.size());
      const std::size_t graph_pools = leg.record.pools.size() - 1;  // all but the default pool
      EXPECT_EQ(graph_pools, pools == matrix::GraphPool::shared ? 1U : leg.record.graphs.size());
    }
  }
}

TEST(Callables, ShareTheMemoryOfOnePoolOnceABackwardHasPassed) {
  matrix::Cell cell = pipeline_cell(1, 4);
  const auto peak = [&](matrix::GraphPool pools) {
    cell.platform.graph_pool = pools;
    std::int64_t bytes = 0;
    const LegRecord record = run_one(cell, graph);
    for (const auto& [name, pool] : record.pools) {
      if (name != "default") bytes += pool.peak_active_bytes;
    }
    return bytes;
  };
  EXPECT_LT(peak(matrix::GraphPool::shared), peak(matrix::GraphPool::separate));
}

TEST(Callables, RunNoHooksWhereParametersAreNotGatheredMeanwhile) {
  for (const ExecutionRecord& execution : run_one(callable_cell(), graph).executions) {
    EXPECT_EQ(execution.hooks, 0U);
  }
}

TEST(Callables, RunTheirHooksOnceInOrderBeforeEveryForward) {
  const matrix::Cell cell = callable_cell();
  const auto device = create_reference_device({.arena_bytes = 64 << 20});
  const CapturePlan plan = plan_capture(cell);
  const LegEnvironment environment{.device = *device, .seed = 11};
  LegRecord record;
  PhaseClock clock(nullptr, *device);
  LegMemory memory(*device);
  Recorder recorder(*memory.allocator, *memory.main, false);
  const RngTracker rng(*memory.allocator, *memory.main, 11, {});
  const auto model = make_stage_model(cell, 11, 0, *memory.allocator, *memory.main);
  LegContext context{cell, graph, environment, plan, memory, rng.state(), recorder, clock, record};
  LayerBody body(context);
  GraphKeeper keeper(context, body);
  const auto zeros = [&] {
    Buffer buffer(*memory.allocator, *memory.main, default_pool, context.model_type(),
                  context.hidden_shape(), "zeros");
    memory.main->fill(buffer.view(), 0, "zeros");
    return buffer;
  };
  const Buffer input = zeros();
  const Buffer grad_output = zeros();
  const LayerCall call{.module = model->layers().front()};
  GraphedCallable callable(context, body, keeper, call, input.view(), grad_output.view());
  std::vector<std::string> ran;
  callable.set_hooks({[&] { ran.emplace_back("attention"); }, [&] { ran.emplace_back("mlp"); }});
  const CallableCapture target{.pool = keeper.create_pool("graph")};
  callable.capture_forward(target);
  callable.capture_backward(target);
  EXPECT_TRUE(ran.empty());
  for (std::size_t replay = 1; replay <= 2; ++replay) {
    callable.forward(call, input.view());
    callable.backward(call, grad_output.view());
    EXPECT_EQ(ran.size(), 2 * replay);
  }
  EXPECT_EQ(ran, (std::vector<std::string>{"attention", "mlp", "attention", "mlp"}));
  EXPECT_EQ(record.executions.front().hooks, 2U);
  EXPECT_EQ(record.executions.back().hooks, 0U);
  device->synchronize();
  callable.destroy_graphs();
  callable.release_memory();
}

TEST(Callables, OfTheWrongMicrobatchOverwriteActivationsAndGiveWrongGradients) {
  const matrix::Cell cell = pipeline_cell(2, 3);
  ASSERT_TRUE(fault_row(Fault::f04a_shared_output_slot).applies(cell));
  FaultSwitches faults;
  faults.turn_on(Fault::f04a_shared_output_slot);
  const auto expected = testing::run_ranks(cell, instrumented_eager);
  const auto actual = testing::run_ranks(cell, instrumented_graph, faults);
  ASSERT_EQ(actual[0].record.error, "");
  EXPECT_GT(testing::changed_slots(actual[0].record, SlotKind::saved_activation), 0U);
  EXPECT_FALSE(testing::differences(expected[0].bytes, actual[0].bytes).empty());
}

TEST(Callables, HandedOutGradientSlotsAreOverwrittenByTheNextReplay) {
  const matrix::Cell cell = callable_cell();
  FaultSwitches faults;
  faults.turn_on(Fault::f04b_weight_grad_slot_handed_out);
  const auto legs = testing::run_ranks(cell, instrumented_graph, faults);
  EXPECT_GT(testing::changed_slots(legs.at(0).record, SlotKind::weight_grad), 0U);
  const auto right = testing::run_ranks(cell, instrumented_graph);
  EXPECT_EQ(testing::changed_slots(right.at(0).record, SlotKind::weight_grad), 0U);
}

}  // namespace
}  // namespace cgconform::workloads
