#include <algorithm>
#include <set>

#include "tests/workloads/training_legs.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using testing::small_cell;

struct Variant {
  CudaGraphImpl impl;
  matrix::ParamsDtype dtype;
  float dropout;
};

std::string implementation_name(CudaGraphImpl impl) {
  switch (impl) {
    case CudaGraphImpl::local:
      return "local";
    case CudaGraphImpl::full_iteration:
      return "full_iteration";
    case CudaGraphImpl::transformer_engine:
      return "transformer_engine";
    case CudaGraphImpl::none:
      break;
  }
  return "none";
}

matrix::Cell cell_of(const Variant& variant) {
  matrix::Cell cell = small_cell(variant.impl);
  cell.config.params_dtype = variant.dtype;
  cell.config.attention_dropout = variant.dropout;
  cell.config.hidden_dropout = variant.dropout;
  return cell;
}

class GraphLegs : public testing::OneRankLegs, public ::testing::WithParamInterface<Variant> {};

TEST_P(GraphLegs, EqualEagerBitForBit) {
  const matrix::Cell cell = cell_of(GetParam());
  const LegRecord expected = run(cell, eager);
  const LegRecord actual = run(cell, graph);
  ASSERT_EQ(actual.error, "");
  // Layer tensors inside a graph show only in instrumented legs.
  const bool complete = GetParam().impl != CudaGraphImpl::full_iteration;
  EXPECT_EQ(testing::differences(testing::bytes_of(expected, device()),
                                 testing::bytes_of(actual, device()), complete),
            std::vector<std::string>{});
}

TEST_P(GraphLegs, EqualEagerInEveryTensorOfAnInstrumentedLeg) {
  const matrix::Cell cell = cell_of(GetParam());
  const LegRecord expected = run(cell, instrumented_eager);
  const LegRecord actual = run(cell, instrumented_graph);
  ASSERT_EQ(actual.error, "");
  EXPECT_EQ(testing::differences(testing::bytes_of(expected, device()),
                                 testing::bytes_of(actual, device())),
            std::vector<std::string>{});
}

TEST_P(GraphLegs, LeaveNoFindings) {
  const LegRecord record = run(cell_of(GetParam()), instrumented_graph);
  ASSERT_EQ(record.error, "");
  testing::expect_no_findings(record);
}

TEST_P(GraphLegs, CaptureRunsNothingAndChangesNothing) {
  const LegRecord record = run(cell_of(GetParam()), instrumented_graph);
  ASSERT_FALSE(record.captures.empty());
  for (std::size_t i = 0; i < record.captures.size(); ++i) {
    const CaptureAudit& audit = record.captures[i];
    EXPECT_EQ(audit.eager_launches_inside, 0U) << audit.graph;
    EXPECT_EQ(audit.graph_nodes_run_inside, 0U) << audit.graph;
    EXPECT_EQ(audit.hash_before, audit.hash_after) << audit.graph;
    EXPECT_FALSE(audit.nodes_ran_inside) << audit.graph;
    EXPECT_NE(audit.hash_before, 0U) << audit.graph;
    EXPECT_GT(audit.calls, 0U) << audit.graph;
    EXPECT_EQ(audit.first_failure, ErrorCategory::success) << audit.first_failed_call;
    const auto& nodes = record.graphs[i].nodes;
    const auto work = std::count_if(nodes.begin(), nodes.end(), [](const GraphNode& node) {
      return node.kind != NodeKind::empty;
    });
    EXPECT_EQ(audit.eager_body_launches, static_cast<std::uint64_t>(work)) << audit.graph;
  }
}

TEST_P(GraphLegs, ReplaysAreCountedByTheDeviceAndRunNoHostCode) {
  const LegRecord record = run(cell_of(GetParam()), instrumented_graph);
  std::uint64_t replays = 0;
  for (const ExecutionRecord& execution : record.executions) {
    if (!execution.replayed) {
      EXPECT_GT(execution.host_executions, 0U);
      EXPECT_GT(execution.eager_launches, 0U);
      continue;
    }
    ++replays;
    EXPECT_EQ(execution.host_executions, 0U);
    EXPECT_EQ(execution.graph_launches, 1U);
    EXPECT_GT(execution.graph_nodes_run, 0U);
  }
  EXPECT_GT(replays, 0U);
  EXPECT_EQ(record.totals.graph_launches, replays);
  std::uint64_t launches = 0;
  for (const GraphRecord& captured : record.graphs) launches += captured.launches;
  EXPECT_EQ(launches, replays);
}

TEST_P(GraphLegs, AreEqualForEveryOrderOfReplay) {
  const matrix::Cell cell = cell_of(GetParam());
  const auto first = testing::bytes_of(run(cell, graph), device());
  for (std::uint64_t seed = 100; seed < 104; ++seed) {
    const LegRequest request{.kind = LegKind::graph, .replay_seed = seed};
    EXPECT_EQ(testing::differences(first, testing::bytes_of(run(cell, request), device())),
              std::vector<std::string>{});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Implementations, GraphLegs,
    ::testing::Values(Variant{CudaGraphImpl::local, matrix::ParamsDtype::fp32, 0.1F},
                      Variant{CudaGraphImpl::local, matrix::ParamsDtype::fp64, 0.0F},
                      Variant{CudaGraphImpl::full_iteration, matrix::ParamsDtype::fp32, 0.1F},
                      Variant{CudaGraphImpl::full_iteration, matrix::ParamsDtype::fp64, 0.0F},
                      Variant{CudaGraphImpl::transformer_engine, matrix::ParamsDtype::fp32, 0.1F},
                      Variant{CudaGraphImpl::transformer_engine, matrix::ParamsDtype::fp64, 0.0F}),
    [](const auto& variant) {
      const bool fp64 = variant.param.dtype == matrix::ParamsDtype::fp64;
      return implementation_name(variant.param.impl) + (fp64 ? "_fp64" : "_fp32_dropout");
    });

class CaptureRules : public testing::OneRankLegs {};

TEST_F(CaptureRules, LocalCapturesOnePairALayerInTheOrderOfTheFirstStep) {
  const LegRecord record = run(small_cell(CudaGraphImpl::local), graph);
  std::vector<std::string> names;
  for (const GraphRecord& captured : record.graphs) {
    names.push_back(captured.name);
    EXPECT_EQ(captured.capture_step, 0);
    EXPECT_EQ(captured.launches, 3U * 3U) << captured.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "layer 0 forward microbatch 0", "layer 1 forward microbatch 0",
                       "layer 1 backward microbatch 0", "layer 0 backward microbatch 0"}));
}

TEST_F(CaptureRules, FullIterationCapturesOnTheCallAfterTheWarmup) {
  matrix::Cell cell = small_cell(CudaGraphImpl::full_iteration);
  cell.config.cuda_graph_warmup_steps = 2;
  cell.shape.eval_interval = 1;
  const LegRecord record = run(cell, graph);
  ASSERT_EQ(record.error, "");
  ASSERT_EQ(record.graphs.size(), 2U);
  EXPECT_EQ(record.graphs[0].name, "iteration training");
  EXPECT_EQ(record.graphs[1].name, "iteration validation");
  EXPECT_EQ(record.graphs[0].capture_step, 2);
  EXPECT_EQ(record.graphs[1].capture_step, 2);
  for (const ExecutionRecord& execution : record.executions) {
    EXPECT_EQ(execution.replayed, execution.step >= 2);
  }
}

TEST_F(CaptureRules, FullIterationCapturesAtOnceWithoutWarmup) {
  matrix::Cell cell = small_cell(CudaGraphImpl::full_iteration);
  cell.config.cuda_graph_warmup_steps = 0;
  const LegRecord expected = run(cell, eager);
  const LegRecord record = run(cell, graph);
  ASSERT_EQ(record.error, "");
  EXPECT_EQ(record.graphs.at(0).capture_step, 0);
  EXPECT_EQ(testing::differences(testing::bytes_of(expected, device()),
                                 testing::bytes_of(record, device()), false),
            std::vector<std::string>{});
}

TEST_F(CaptureRules, ValidationRunsEagerlyUnderLocalAndLeavesRunnersReady) {
  matrix::Cell cell = small_cell(CudaGraphImpl::local);
  cell.shape.eval_interval = 1;
  cell.shape.eval_iters = 2;
  const LegRecord expected = run(cell, eager);
  const LegRecord record = run(cell, graph);
  ASSERT_EQ(record.error, "");
  std::size_t validations = 0;
  for (const ExecutionRecord& execution : record.executions) {
    if (!execution.validation) continue;
    EXPECT_FALSE(execution.replayed);
    ++validations;
  }
  EXPECT_EQ(validations, 4U * 2U * 2U);
  EXPECT_EQ(testing::differences(testing::bytes_of(expected, device()),
                                 testing::bytes_of(record, device())),
            std::vector<std::string>{});
}

TEST_F(CaptureRules, ValidationGraphDoesNotDisturbTheTrainingGraph) {
  matrix::Cell cell = small_cell(CudaGraphImpl::full_iteration);
  cell.shape.eval_interval = 1;
  const LegRecord expected = run(cell, instrumented_eager);
  const LegRecord record = run(cell, instrumented_graph);
  ASSERT_EQ(record.error, "");
  EXPECT_EQ(record.graphs.size(), 2U);
  EXPECT_TRUE(record.address_findings.empty());
  EXPECT_EQ(testing::differences(testing::bytes_of(expected, device()),
                                 testing::bytes_of(record, device())),
            std::vector<std::string>{});
}

TEST_F(CaptureRules, ASharedPoolNeedsLessThanSeparateOnes) {
  matrix::Cell cell = small_cell(CudaGraphImpl::local);
  const auto peak = [&](matrix::GraphPool pools) {
    cell.platform.graph_pool = pools;
    const LegRecord record = run(cell, graph);
    EXPECT_EQ(record.error, "");
    std::int64_t bytes = 0;
    for (const auto& [name, pool] : record.pools) {
      if (name != "default") bytes += pool.peak_active_bytes;
    }
    return bytes;
  };
  EXPECT_LT(peak(matrix::GraphPool::shared), peak(matrix::GraphPool::separate));
}

TEST_F(CaptureRules, GraphsAreDestroyedInReverseOrderOfTheirCapture) {
  const LegRecord record = run(small_cell(CudaGraphImpl::local), graph);
  std::set<std::int32_t> orders;
  for (const GraphRecord& captured : record.graphs) {
    EXPECT_GE(captured.destroy_order, 0);
    orders.insert(captured.destroy_order);
  }
  EXPECT_EQ(orders.size(), record.graphs.size());
}

TEST_F(CaptureRules, AScopeThatSelectsNoLayerCapturesNothing) {
  matrix::Cell cell = small_cell(CudaGraphImpl::local);
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::mamba};
  const LegRecord record = run(cell, graph);
  EXPECT_EQ(record.error, "");
  EXPECT_TRUE(record.graphs.empty());
}

TEST_F(CaptureRules, WarmupCountDoesNotChangeTheTrajectory) {
  matrix::Cell cell = small_cell(CudaGraphImpl::local);
  cell.config.cuda_graph_warmup_steps = 0;
  const auto none = testing::bytes_of(run(cell, graph), device());
  cell.config.cuda_graph_warmup_steps = 3;
  EXPECT_EQ(testing::differences(none, testing::bytes_of(run(cell, graph), device())),
            std::vector<std::string>{});
}

class Sabotaged : public testing::OneRankLegs,
                  public ::testing::WithParamInterface<CudaGraphImpl> {};

TEST_P(Sabotaged, ReplayThatDoesNothingShowsInTheDeviceCounters) {
  const LegRecord record =
      run(small_cell(GetParam()), instrumented_graph, Sabotage::replay_does_nothing);
  EXPECT_EQ(record.totals.graph_launches, 0U);
  EXPECT_FALSE(record.graphs.empty());
}

TEST_P(Sabotaged, ReplayThatRunsEagerCodeIsRightInNumbersAndShowsInTheCounters) {
  const matrix::Cell cell = small_cell(GetParam());
  const LegRecord expected = run(cell, eager);
  const LegRecord record = run(cell, graph, Sabotage::replay_runs_eager_code);
  ASSERT_EQ(record.error, "");
  EXPECT_EQ(testing::differences(testing::bytes_of(expected, device()),
                                 testing::bytes_of(record, device()), false),
            std::vector<std::string>{});
  for (const ExecutionRecord& execution : record.executions) {
    EXPECT_GT(execution.host_executions, 0U);
    EXPECT_EQ(execution.graph_launches, 0U);
  }
}

TEST_P(Sabotaged, CaptureThatExecutesShowsInTheAudit) {
  const LegRecord record = run(small_cell(GetParam()), graph, Sabotage::capture_executes_at_once);
  ASSERT_FALSE(record.captures.empty());
  for (const CaptureAudit& audit : record.captures) EXPECT_GT(audit.eager_launches_inside, 0U);
}

INSTANTIATE_TEST_SUITE_P(Implementations, Sabotaged,
                         ::testing::Values(CudaGraphImpl::local, CudaGraphImpl::full_iteration,
                                           CudaGraphImpl::transformer_engine),
                         [](const auto& variant) { return implementation_name(variant.param); });

}  // namespace
}  // namespace cgconform::workloads
