#include <algorithm>
#include <string>

#include <gmock/gmock.h>

#include "tests/workloads/training_legs.hpp"
#include "workloads/capture/layer_group.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CudaGraphImpl;
using matrix::RecomputeGranularity;
using matrix::RecomputeMethod;
using matrix::RecomputeModule;
using matrix::RecomputeModules;
using ::testing::IsEmpty;

constexpr RecomputeModules every_dense_module{RecomputeModule::core_attn, RecomputeModule::mlp,
                                              RecomputeModule::layernorm};

matrix::Cell selective(matrix::Cell cell, RecomputeModules modules) {
  cell.config.recompute_granularity = RecomputeGranularity::selective;
  cell.config.recompute_modules = modules;
  return cell;
}

matrix::Cell full(matrix::Cell cell, RecomputeMethod method, std::int32_t layers) {
  cell.config.recompute_granularity = RecomputeGranularity::full;
  cell.config.recompute_method = method;
  cell.config.recompute_num_layers = layers;
  return cell;
}

matrix::Cell whole_iteration() {
  return small_cell(CudaGraphImpl::full_iteration);
}

matrix::Cell without_dropout(matrix::Cell cell) {
  cell.config.attention_dropout = 0.0F;
  cell.config.hidden_dropout = 0.0F;
  return cell;
}

/// Nodes of a leg's graphs that compute something again.
std::size_t recompute_nodes(const LegRecord& record, bool forward) {
  std::size_t count = 0;
  for (const GraphRecord& graph : record.graphs) {
    if (graph.forward != forward) continue;
    for (const GraphNode& node : graph.nodes) {
      count += node.label.find(" recompute ") != std::string::npos ? 1U : 0U;
    }
  }
  return count;
}

class Recompute : public OneRankLegs {
 protected:
  /// Differences between the leg of the cell and that of the same cell with all activations kept.
  std::vector<std::string> changes(const matrix::Cell& cell, LegRequest request) {
    const LegRecord with = run(cell, request);
    EXPECT_EQ(with.error, "");
    request.without_recompute = true;
    const LegRecord without = run(cell, request);
    EXPECT_EQ(without.error, "");
    EXPECT_GT(with.observations.size(), 0U);
    return differences(bytes_of(without, device()), bytes_of(with, device()));
  }

  std::int64_t graph_memory(const matrix::Cell& cell, LegRequest request) {
    const LegRecord record = run(cell, request);
    EXPECT_EQ(record.error, "");
    return record.pools.at("graph").peak_active_bytes;
  }
};

TEST_F(Recompute, OfWholeLayersChangesNoResultOfEagerRuns) {
  for (const RecomputeMethod method : {RecomputeMethod::uniform, RecomputeMethod::block}) {
    for (const std::int32_t layers : {1, 2}) {
      EXPECT_THAT(changes(full(small_cell(), method, layers), eager), IsEmpty());
    }
  }
}

TEST_F(Recompute, OfWholeLayersChangesNoResultOfACapturedIteration) {
  EXPECT_THAT(changes(full(whole_iteration(), RecomputeMethod::uniform, 2), graph), IsEmpty());
  EXPECT_THAT(changes(full(whole_iteration(), RecomputeMethod::block, 1), graph), IsEmpty());
}

TEST_F(Recompute, OfModulesChangesNoResultOfEagerRuns) {
  EXPECT_THAT(changes(selective(small_cell(), every_dense_module), eager), IsEmpty());
  EXPECT_THAT(changes(selective(small_cell(), {RecomputeModule::core_attn}), eager), IsEmpty());
}

TEST_F(Recompute, OfModulesChangesNoResultOfGraphs) {
  for (const CudaGraphImpl impl :
       {CudaGraphImpl::local, CudaGraphImpl::transformer_engine, CudaGraphImpl::full_iteration}) {
    const matrix::Cell cell = selective(without_dropout(small_cell(impl)), every_dense_module);
    EXPECT_THAT(changes(cell, graph), IsEmpty()) << static_cast<int>(impl);
  }
}

TEST_F(Recompute, DrawsTheMasksOfTheForwardAgain) {
  const LegRecord record =
      run(full(whole_iteration(), RecomputeMethod::uniform, 2), instrumented_graph);
  ASSERT_EQ(record.error, "");
  ObservedBytes drawn;
  ObservedBytes again;
  for (auto& [key, bytes] : bytes_of(record, device())) {
    ObservationKey place = key;
    std::get<0>(place) = ObservedQuantity::dropout_mask;
    if (std::get<0>(key) == ObservedQuantity::dropout_mask) drawn.emplace(place, bytes);
    if (std::get<0>(key) == ObservedQuantity::recomputed_mask) again.emplace(place, bytes);
  }
  EXPECT_EQ(again.size(), drawn.size());
  EXPECT_THAT(differences(drawn, again), IsEmpty());
}

TEST_F(Recompute, DropsActivationsFromTheMemoryOfACapturedIteration) {
  const matrix::Cell cell = full(whole_iteration(), RecomputeMethod::uniform, 1);
  LegRequest kept = graph;
  kept.without_recompute = true;
  EXPECT_LT(graph_memory(cell, graph), graph_memory(cell, kept));
}

TEST_F(Recompute, OfCoreAttentionAndMlpDoesNothingInGraphsOfSingleLayers) {
  LegRequest kept = graph;
  kept.without_recompute = true;
  for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::transformer_engine}) {
    const matrix::Cell cell = selective(without_dropout(small_cell(impl)),
                                        {RecomputeModule::core_attn, RecomputeModule::mlp});
    const LegRecord record = run(cell, graph);
    EXPECT_EQ(recompute_nodes(record, true) + recompute_nodes(record, false), 0U);
    EXPECT_EQ(graph_memory(cell, graph), graph_memory(cell, kept));
  }
}

TEST_F(Recompute, OfLayernormRunsInBackwardGraphsOfSingleLayers) {
  for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::transformer_engine}) {
    const matrix::Cell cell = selective(small_cell(impl), {RecomputeModule::layernorm});
    const LegRecord record = run(cell, graph);
    EXPECT_EQ(record.error, "");
    EXPECT_EQ(recompute_nodes(record, true), 0U);
    EXPECT_GT(recompute_nodes(record, false), 0U);
  }
}

TEST_F(Recompute, RunsOnlyInTrainingIterations) {
  matrix::Cell cell = full(whole_iteration(), RecomputeMethod::uniform, 1);
  cell.shape.eval_interval = 1;
  const LegRecord record = run(cell, graph);
  ASSERT_EQ(record.graphs.size(), 2U);
  for (const GraphRecord& captured : record.graphs) {
    const bool recomputes = std::any_of(
        captured.nodes.begin(), captured.nodes.end(),
        [](const GraphNode& node) { return node.label.find(" recompute ") != std::string::npos; });
    EXPECT_EQ(recomputes, captured.name == "iteration training") << captured.name;
  }
}

TEST(RecomputedGroup, CutsEachModelChunkForItself) {
  matrix::Cell cell = full(small_cell(), RecomputeMethod::uniform, 2);
  cell.config.num_layers = 12;
  cell.config.pipeline_model_parallel_size = 2;
  cell.config.virtual_pipeline_model_parallel_size = 2;
  const auto group = [&](std::int32_t layer) {
    const auto found = recomputed_group(cell, layer);
    return found ? std::pair{found->first, found->last} : std::pair{-1, -1};
  };
  EXPECT_EQ(group(3), (std::pair{3, 4}));
  EXPECT_EQ(group(4), (std::pair{3, 4}));
  EXPECT_EQ(group(5), (std::pair{5, 5}));
  cell.config.recompute_method = RecomputeMethod::block;
  EXPECT_EQ(group(4), (std::pair{4, 4}));
  EXPECT_EQ(group(5), (std::pair{-1, -1}));
  cell.config.recompute_granularity = RecomputeGranularity::selective;
  EXPECT_EQ(group(4), (std::pair{-1, -1}));
}

}  // namespace
}  // namespace cgconform::workloads::testing
