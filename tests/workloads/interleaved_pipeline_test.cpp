#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "matrix/virtual_stages.hpp"
#include "tests/workloads/pipeline_legs.hpp"
#include "workloads/parallel/capture_order.hpp"
#include "workloads/parallel/pipeline_schedule.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;

constexpr LegRequest eager{};
constexpr LegRequest graph{.kind = LegKind::graph, .replay_seed = 5};
constexpr LegRequest instrumented_eager{.instrumented = true};
constexpr LegRequest instrumented_graph{
    .kind = LegKind::graph, .instrumented = true, .replay_seed = 6};

struct Layout {
  std::int32_t stages;
  std::int32_t chunks;
  std::int32_t microbatches;
  std::optional<std::int32_t> group = std::nullopt;
};

matrix::Cell cell_of(CudaGraphImpl impl, const Layout& layout) {
  matrix::Cell cell = testing::small_cell(impl);
  cell.config.num_layers = layout.stages * layout.chunks;
  cell.config.pipeline_model_parallel_size = layout.stages;
  if (layout.chunks > 1) cell.config.virtual_pipeline_model_parallel_size = layout.chunks;
  cell.config.num_microbatches = layout.microbatches;
  cell.config.microbatch_group_size_per_vp_stage = layout.group;
  return cell;
}

/// What a stage sends in one direction to a neighbour, or receives from it, in order.
std::vector<std::string> traffic(const PipelineLayout& layout, PipelineTransfer wanted) {
  std::vector<std::string> seen;
  const std::int32_t stages = layout.stages;
  for (const PipelineAction& action : training_schedule(layout)) {
    if (action.transfer != wanted) continue;
    // Named by the virtual stage that is left, so that both ends call a message the same.
    std::int32_t from = action.chunk * stages + layout.stage;
    if (wanted == PipelineTransfer::receive_input) --from;
    if (wanted == PipelineTransfer::receive_grad) ++from;
    seen.push_back(std::to_string(from) + "/" + std::to_string(action.microbatch));
  }
  return seen;
}

TEST(InterleavedSchedule, RunsInTheOrderInWhichGraphsAreCaptured) {
  for (const std::int32_t stages : {2, 4, 8}) {
    for (const std::int32_t chunks : {2, 3}) {
      for (std::int32_t stage = 0; stage < stages; ++stage) {
        const PipelineLayout layout{stages, stage, 2 * stages, chunks};
        std::vector<std::int32_t> order;
        for (const PipelineAction& action : training_schedule(layout)) {
          if (action.work == PipelineWork::forward) order.push_back(action.chunk + 1);
          if (action.work == PipelineWork::backward) order.push_back(-action.chunk - 1);
        }
        EXPECT_EQ(order, capture_order({.pipeline_stages = stages,
                                        .rank = stage,
                                        .chunks = chunks,
                                        .microbatches = 2 * stages})
                             .order);
      }
    }
  }
}

TEST(InterleavedSchedule, NeighboursAgreeOnTheOrderOfActivationsAndOfGradients) {
  for (const Layout& shape : {Layout{2, 2, 4}, Layout{2, 2, 5, 3}, Layout{4, 3, 8}}) {
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      const PipelineLayout here{shape.stages, stage, shape.microbatches, shape.chunks, shape.group};
      PipelineLayout next = here;
      next.stage = (stage + 1) % shape.stages;
      EXPECT_EQ(traffic(here, PipelineTransfer::send_output),
                traffic(next, PipelineTransfer::receive_input));
      EXPECT_EQ(traffic(next, PipelineTransfer::send_grad),
                traffic(here, PipelineTransfer::receive_grad));
    }
  }
}

TEST(VirtualStages, DealOutEveryLayerOnceAndInTurn) {
  for (const std::int32_t layers : {8, 7, 3}) {
    matrix::Cell cell = cell_of(CudaGraphImpl::none, {2, 2, 4});
    cell.config.num_layers = layers;
    std::set<std::int32_t> dealt;
    for (std::int32_t stage = 0; stage < 2; ++stage) {
      const auto held = matrix::virtual_stages(cell, stage);
      ASSERT_EQ(held.size(), 2U);
      EXPECT_LE(held[0].end_layer, held[1].first_layer);
      EXPECT_EQ(held[0].first, stage == 0);
      EXPECT_EQ(held[1].last, stage == 1);
      for (const auto& part : held) {
        for (std::int32_t layer = part.first_layer; layer < part.end_layer; ++layer) {
          EXPECT_TRUE(dealt.insert(layer).second);
        }
      }
    }
    EXPECT_EQ(dealt.size(), static_cast<std::size_t>(layers));
  }
}

TEST(InterleavedPipeline, TrainsLikeOneStageAlsoWithUnevenChunks) {
  for (const std::int32_t layers : {4, 3}) {
    matrix::Cell cell = cell_of(CudaGraphImpl::none, {1, 1, 4});
    cell.config.num_layers = layers;
    // Without dropout: stages draw from streams of their own.
    cell.config.attention_dropout = 0.0F;
    cell.config.hidden_dropout = 0.0F;
    const auto whole = testing::run_ranks(cell, eager).at(0).bytes;
    cell.config.pipeline_model_parallel_size = 2;
    cell.config.virtual_pipeline_model_parallel_size = 2;
    std::size_t compared = 0;
    for (const testing::RankLeg& rank : testing::run_ranks(cell, eager)) {
      ASSERT_EQ(rank.record.error, "");
      for (const auto& [key, bytes] : rank.bytes) {
        const bool state = std::get<0>(key) == ObservedQuantity::main_grad ||
                           std::get<0>(key) == ObservedQuantity::weight ||
                           std::get<0>(key) == ObservedQuantity::loss;
        if (!state) continue;
        EXPECT_EQ(whole.at(key), bytes) << testing::key_text(key);
        ++compared;
      }
    }
    EXPECT_GT(compared, 0U);
  }
}

struct GraphCase {
  const char* name;
  CudaGraphImpl impl;
  Layout layout;
};

class InterleavedGraphs : public ::testing::TestWithParam<GraphCase> {};

TEST_P(InterleavedGraphs, EqualEagerOnEveryRankAndLeaveNoFindings) {
  matrix::Cell cell = cell_of(GetParam().impl, GetParam().layout);
  cell.shape.eval_interval = 2;
  for (const auto& [reference, request] :
       {std::pair{eager, graph}, std::pair{instrumented_eager, instrumented_graph}}) {
    const auto expected = testing::run_ranks(cell, reference);
    const auto actual = testing::run_ranks(cell, request);
    const bool complete = request.instrumented || GetParam().impl != CudaGraphImpl::full_iteration;
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      const LegRecord& record = actual[rank].record;
      ASSERT_EQ(record.error, "");
      EXPECT_FALSE(record.graphs.empty());
      EXPECT_EQ(testing::differences(expected[rank].bytes, actual[rank].bytes, complete),
                std::vector<std::string>{});
      for (const AddressFinding& finding : record.address_findings) {
        ADD_FAILURE() << finding.reason << ": " << finding.op << " " << finding.operand;
      }
      EXPECT_TRUE(record.edge_findings.empty());
      for (const SlotRecord& slot : record.slots) {
        EXPECT_EQ(slot.hash_at_production, slot.hash_at_use) << slot.where.tensor;
      }
      EXPECT_EQ(record.live_bytes_after_teardown, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, InterleavedGraphs,
    ::testing::Values(
        GraphCase{"local_2_stages_2_chunks", CudaGraphImpl::local, {2, 2, 4}},
        GraphCase{"local_4_stages", CudaGraphImpl::local, {4, 1, 5}},
        GraphCase{"full_iteration_2_stages_2_chunks", CudaGraphImpl::full_iteration, {2, 2, 4}},
        GraphCase{"callables_2_stages_2_chunks_uneven_groups",
                  CudaGraphImpl::transformer_engine,
                  {2, 2, 5, 3}},
        GraphCase{"callables_4_stages_2_chunks", CudaGraphImpl::transformer_engine, {4, 2, 4}}),
    [](const auto& row) { return row.param.name; });

TEST(InterleavedPipeline, CallablesOfUnevenChunksEqualEager) {
  matrix::Cell cell = cell_of(CudaGraphImpl::transformer_engine, {2, 2, 4});
  cell.config.num_layers = 3;
  const auto expected = testing::run_ranks(cell, eager);
  const auto actual = testing::run_ranks(cell, graph);
  ASSERT_EQ(actual[0].record.error, "");
  EXPECT_EQ(actual[0].record.graphs.size(), 8U) << "one layer, four micro-batches, both ways";
  EXPECT_EQ(actual[1].record.graphs.size(), 16U);
  for (std::size_t rank = 0; rank < actual.size(); ++rank) {
    EXPECT_EQ(testing::differences(expected[rank].bytes, actual[rank].bytes),
              std::vector<std::string>{});
  }
}

TEST(InterleavedPipeline, CallablesShareAsManyInputsAsMicrobatchesAreInFlight) {
  for (const Layout& shape : {Layout{4, 1, 8}, Layout{2, 2, 4}}) {
    const matrix::Cell cell = cell_of(CudaGraphImpl::transformer_engine, shape);
    const auto ranks = testing::run_ranks(cell, graph);
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      const LegRecord& record = ranks[static_cast<std::size_t>(stage)].record;
      ASSERT_EQ(record.error, "");
      std::set<const void*> inputs;
      for (const GraphRecord& captured : record.graphs) {
        if (captured.forward) inputs.insert(captured.input);
      }
      const CaptureOrder order = capture_order({.pipeline_stages = shape.stages,
                                                .rank = stage,
                                                .chunks = shape.chunks,
                                                .microbatches = shape.microbatches});
      EXPECT_EQ(inputs.size(), static_cast<std::size_t>(order.static_input_sets));
    }
  }
}

TEST(PartlyGraphed, LayersTrainLikeAllEager) {
  for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::transformer_engine}) {
    for (const matrix::GraphedLayers layers :
         {matrix::GraphedLayers::first, matrix::GraphedLayers::last, matrix::GraphedLayers::odd}) {
      matrix::Cell cell = cell_of(impl, {1, 1, 3});
      cell.config.num_layers = 4;
      cell.shape.graphed_layers = layers;
      const auto expected = testing::run_ranks(cell, eager);
      const auto actual = testing::run_ranks(cell, graph);
      ASSERT_EQ(actual[0].record.error, "");
      std::set<std::int32_t> captured;
      for (const GraphRecord& made : actual[0].record.graphs) captured.insert(made.layer);
      const std::set<std::int32_t> wanted =
          layers == matrix::GraphedLayers::first  ? std::set<std::int32_t>{0}
          : layers == matrix::GraphedLayers::last ? std::set<std::int32_t>{3}
                                                  : std::set<std::int32_t>{1, 3};
      EXPECT_EQ(captured, wanted);
      EXPECT_EQ(testing::differences(expected[0].bytes, actual[0].bytes),
                std::vector<std::string>{});
    }
  }
}

}  // namespace
}  // namespace cgconform::workloads
