#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "matrix/virtual_stages.hpp"
#include "tests/workloads/sharded_results.hpp"
#include "workloads/training/parallel_groups.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::RecomputeGranularity;
using matrix::RecomputeModule;
using testing::Layout;

constexpr LegRequest eager{};
constexpr LegRequest graph{.kind = LegKind::graph, .replay_seed = 5};
constexpr LegRequest instrumented_eager{.instrumented = true};
constexpr LegRequest instrumented_graph{
    .kind = LegKind::graph, .instrumented = true, .replay_seed = 6};

matrix::Cell split_cell(CudaGraphImpl impl, const Layout& layout) {
  matrix::Cell cell = testing::spread_cell(layout, impl);
  cell.config.num_microbatches = 4;
  return cell;
}

/// Heads enough for four parts.
void expect_results_of_one_rank(const Layout& layout) {
  matrix::Cell cell = split_cell(CudaGraphImpl::none, layout);
  cell.config.num_attention_heads = 4;
  testing::expect_results_of_one_rank(cell);
}

TEST(TensorParallel, GivesTheLossesAndGradientsOfOneRank) {
  expect_results_of_one_rank({.parts = 2});
  expect_results_of_one_rank({.parts = 4});
}

TEST(TensorParallel, GivesThemInProductsWithReplicasAndStages) {
  expect_results_of_one_rank({.parts = 2, .replicas = 2});
  expect_results_of_one_rank({.parts = 2, .stages = 2, .chunks = 2});
  expect_results_of_one_rank({.parts = 2, .replicas = 2, .stages = 2});
}

TEST(TensorParallel, GivesThemWithImagesBeforeTheText) {
  matrix::Cell cell = split_cell(CudaGraphImpl::none, {.parts = 2, .replicas = 2});
  cell.shape.image_tokens = 2;
  testing::expect_results_of_one_rank(cell);
}

TEST(TensorParallel, GivesThemWithLatentAttention) {
  for (const std::int32_t parts : {2, 4}) {
    matrix::Cell cell = split_cell(CudaGraphImpl::none, {.parts = parts});
    cell.config.num_attention_heads = 4;
    cell.config.multi_latent_attention = true;
    testing::expect_results_of_one_rank(cell);
  }
}

TEST(TensorParallel, PutsThePartsOfALayerOnNeighboursThenReplicasThenStages) {
  const matrix::Cell cell =
      split_cell(CudaGraphImpl::none, {.parts = 2, .replicas = 2, .stages = 2});
  for (std::int32_t rank = 0; rank < cell.ranks(); ++rank) {
    EXPECT_EQ(matrix::tensor_rank_of(cell, rank), rank % 2);
    EXPECT_EQ(matrix::replica_of(cell, rank), rank / 2 % 2);
    EXPECT_EQ(matrix::pipeline_stage_of(cell, rank), rank / 4);
  }
}

TEST(TensorParallel, DropsTheSameHiddenStatesOnAllPartsAndOtherAttentionOnEach) {
  const auto ranks =
      testing::run_ranks(split_cell(CudaGraphImpl::none, {.parts = 2}), instrumented_eager);
  std::size_t equal = 0;
  std::size_t different = 0;
  for (const auto& [key, mask] : ranks[0].bytes) {
    if (std::get<0>(key) != ObservedQuantity::dropout_mask) continue;
    const bool of_attention = std::get<5>(key).find("core_attention") != std::string::npos;
    const bool same = ranks[1].bytes.at(key) == mask;
    if (!of_attention) {
      EXPECT_TRUE(same) << testing::key_text(key);
    }
    ++(same ? equal : different);
  }
  EXPECT_GT(equal, 0U);
  EXPECT_GT(different, 0U);
}

TEST(TensorParallel, AgreesBeforeEveryPassThroughALayerOfAGraphLeg) {
  const matrix::Cell cell = split_cell(CudaGraphImpl::local, {.parts = 2});
  const LegRecord record = std::move(testing::run_ranks(cell, graph).at(0).record);
  const auto replays = static_cast<std::uint64_t>(
      std::count_if(record.executions.begin(), record.executions.end(),
                    [](const ExecutionRecord& execution) { return execution.replayed; }));
  EXPECT_GT(replays, 0U);
  EXPECT_EQ(record.agreements.replays, replays);
  EXPECT_EQ(record.agreements.eager, record.executions.size() - replays + 4U) << "four steps";
}

TEST(TensorParallel, RefusesHeadsThatHaveNoEqualShares) {
  matrix::Cell cell = split_cell(CudaGraphImpl::none, {.parts = 2});
  cell.config.num_attention_heads = 1;
  EXPECT_NE(testing::run_ranks(cell, eager).at(0).record.error.find("tensor_model_parallel_size"),
            std::string::npos);
}

struct GraphCase {
  const char* name;
  CudaGraphImpl impl;
  Layout layout;
  RecomputeGranularity recompute = RecomputeGranularity::none;
};

class TensorParallelGraphs : public ::testing::TestWithParam<GraphCase> {};

TEST_P(TensorParallelGraphs, EqualEagerAndHoldTheReductionsOfActivations) {
  matrix::Cell cell = split_cell(GetParam().impl, GetParam().layout);
  cell.config.recompute_granularity = GetParam().recompute;
  if (GetParam().recompute == RecomputeGranularity::selective) {
    cell.config.recompute_modules = {RecomputeModule::mlp, RecomputeModule::layernorm};
  } else if (GetParam().recompute == RecomputeGranularity::full) {
    cell.config.recompute_method = matrix::RecomputeMethod::uniform;
  }
  const bool whole_iteration = GetParam().impl == CudaGraphImpl::full_iteration;
  for (const auto& [reference, request] :
       {std::pair{eager, graph}, std::pair{instrumented_eager, instrumented_graph}}) {
    const auto expected = testing::run_ranks(cell, reference);
    const auto actual = testing::run_ranks(cell, request);
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      const LegRecord& record = actual[rank].record;
      ASSERT_EQ(record.error, "");
      EXPECT_EQ(testing::differences(expected[rank].bytes, actual[rank].bytes,
                                     request.instrumented || !whole_iteration),
                std::vector<std::string>{});
      EXPECT_TRUE(record.edge_findings.empty());
      EXPECT_TRUE(record.address_findings.empty());
      EXPECT_FALSE(record.graphs.empty());
      for (const GraphRecord& captured : record.graphs) {
        EXPECT_TRUE(std::any_of(captured.nodes.begin(), captured.nodes.end(),
                                [](const GraphNode& node) { return node.op_name == "all_reduce"; }))
            << captured.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, TensorParallelGraphs,
    ::testing::Values(
        GraphCase{"local", CudaGraphImpl::local, {}},
        GraphCase{"local_recompute", CudaGraphImpl::local, {}, RecomputeGranularity::selective},
        GraphCase{"callables", CudaGraphImpl::transformer_engine, {}},
        GraphCase{
            "callables_interleaved", CudaGraphImpl::transformer_engine, {.stages = 2, .chunks = 2}},
        GraphCase{"full_iteration", CudaGraphImpl::full_iteration, {.replicas = 2}},
        GraphCase{"full_iteration_recompute",
                  CudaGraphImpl::full_iteration,
                  {},
                  RecomputeGranularity::selective},
        GraphCase{"full_iteration_layers_again",
                  CudaGraphImpl::full_iteration,
                  {.stages = 2},
                  RecomputeGranularity::full}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace cgconform::workloads
