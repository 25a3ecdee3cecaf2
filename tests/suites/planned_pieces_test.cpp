#include "suites/planned_pieces.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "suites/coverage_plan.hpp"
#include "suites/recompute_plan.hpp"

namespace cgconform::suites {
namespace {

using matrix::Cell;
using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;

/// A layer with experts, then a dense one.
Cell cell_with_experts(CudaGraphImpl impl, matrix::CudaGraphScope scope) {
  Cell cell;
  cell.config.cuda_graph_impl = impl;
  cell.config.cuda_graph_scope = scope;
  cell.config.cuda_graph_warmup_steps = 1;
  cell.config.num_layers = 2;
  cell.config.num_microbatches = 2;
  cell.config.num_moe_experts = 4;
  cell.config.moe_layer_freq.every = 2;
  return cell;
}

std::string text_of(const Cell& cell, std::int32_t layer) {
  std::string text;
  for (const PlannedPiece& piece : planned_pieces(cell, layer)) {
    if (!text.empty()) text += ' ';
    text += piece.scope.empty() ? "layer" : piece.scope;
    if (piece.captured) text += '*';
  }
  return text;
}

TEST(PlannedPieces, OfCallablesAreNeighbouringModules) {
  using M = CudaGraphModule;
  constexpr auto impl = CudaGraphImpl::transformer_engine;
  const Cell router = cell_with_experts(impl, {M::attn, M::moe_router});
  EXPECT_EQ(text_of(router, 0), "attn+moe_router* moe_preprocess+moe_experts+moe_postprocess");
  EXPECT_EQ(text_of(router, 1), "attn* mlp");
  EXPECT_EQ(text_of(cell_with_experts(impl, {M::attn, M::moe}), 0), "layer*");
  EXPECT_EQ(text_of(cell_with_experts(impl, {M::mlp}), 0), "layer");
}

TEST(PlannedPieces, OfLocalLieAroundTheExperts) {
  using M = CudaGraphModule;
  const Cell cell = cell_with_experts(CudaGraphImpl::local, {M::moe_router, M::moe_preprocess});
  EXPECT_EQ(text_of(cell, 0), "attn moe_router+moe_preprocess* moe_experts moe_postprocess*");
  EXPECT_EQ(text_of(cell, 1), "layer");
}

TEST(PlannedPieces, OfLocalHaveGraphsOfTheirOwnInEitherDirection) {
  using M = CudaGraphModule;
  const Cell cell = cell_with_experts(CudaGraphImpl::local, {M::moe_router, M::moe_preprocess});
  std::vector<std::string> graphs;
  for (const PlannedGraph& graph : plan_coverage(cell, 0).graphs) {
    EXPECT_EQ(graph.launches, 2U * static_cast<std::uint64_t>(planned_steps(cell) - 1));
    graphs.push_back((graph.forward ? "forward " : "backward ") + graph.scope);
  }
  EXPECT_EQ(graphs, (std::vector<std::string>{"forward moe_router+moe_preprocess",
                                              "forward moe_postprocess", "backward moe_postprocess",
                                              "backward moe_router+moe_preprocess"}));
}

TEST(PlannedPieces, OfExpertsInAHybridModelLackAttention) {
  using M = CudaGraphModule;
  const auto hybrid = [](CudaGraphImpl impl, matrix::CudaGraphScope scope) {
    Cell cell = cell_with_experts(impl, scope);
    cell.config.is_hybrid_model = true;
    cell.config.hybrid_layer_pattern = *matrix::HybridPattern::parse("E*");
    return cell;
  };
  const Cell callables = hybrid(CudaGraphImpl::transformer_engine, {M::attn, M::moe_router});
  EXPECT_EQ(text_of(callables, 0), "moe_router* moe_preprocess+moe_experts+moe_postprocess");
  EXPECT_EQ(text_of(callables, 1), "layer*");
  const Cell local = hybrid(CudaGraphImpl::local, {M::moe_router});
  EXPECT_EQ(text_of(local, 0), "moe_router+moe_preprocess* moe_experts moe_postprocess*");
  EXPECT_EQ(text_of(local, 1), "layer");
}

TEST(PlannedPieces, OfEveryKindOfLayerOfAHybridModelLeaveWeightGradients) {
  Cell cell = cell_with_experts(CudaGraphImpl::transformer_engine, {});
  cell.config.num_moe_experts.reset();
  cell.config.is_hybrid_model = true;
  cell.config.hybrid_layer_pattern = *matrix::HybridPattern::parse("M*-");
  cell.config.num_layers = 3;
  for (std::int32_t layer = 0; layer < 3; ++layer) {
    cell.config.delay_wgrad_compute = false;
    EXPECT_FALSE(leaves_wgrads(cell, layer, {}));
    cell.config.delay_wgrad_compute = true;
    EXPECT_TRUE(leaves_wgrads(cell, layer, {})) << layer;
  }
}

TEST(PlannedPieces, RecomputeOnlyWhatTheirModulesDiscard) {
  using M = CudaGraphModule;
  using R = matrix::RecomputeModule;
  Cell cell = cell_with_experts(CudaGraphImpl::local, {M::moe});
  cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
  const auto recomputes = [&](matrix::RecomputeModules modules, const std::string& scope) {
    cell.config.recompute_modules = modules;
    return graph_recomputes(cell, {.layer = 0, .forward = false, .scope = scope}, 0);
  };
  EXPECT_FALSE(recomputes({R::moe, R::shared_experts}, ""));
  EXPECT_TRUE(recomputes({R::moe_act}, ""));
  EXPECT_FALSE(recomputes({R::moe_act}, "moe_router+moe_preprocess"));
  EXPECT_TRUE(recomputes({R::layernorm}, "moe_router+moe_preprocess"));
  EXPECT_FALSE(recomputes({R::layernorm}, "moe_postprocess"));
}

TEST(RecomputePlan, AsksGraphsThatHoldABackward) {
  Cell cell;
  cell.config.cuda_graph_impl = CudaGraphImpl::full_iteration;
  cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
  cell.shape.capture_form = matrix::CaptureForm::partitioned;
  EXPECT_FALSE(graph_recomputes(cell, {.part = 0}, 0)) << "it ends at the first loss";
  EXPECT_TRUE(graph_recomputes(cell, {.part = 1}, 0));
  cell.shape.capture_form = matrix::CaptureForm::callables;
  EXPECT_FALSE(graph_recomputes(cell, {.forward = true}, 0));
  EXPECT_TRUE(graph_recomputes(cell, {.forward = false}, 0));
}

TEST(RecomputePlan, AsksTheLayersThatAStageHolds) {
  Cell cell;
  cell.config.is_hybrid_model = true;  // Mamba, attention, Mamba, MLP
  cell.config.num_layers = 4;
  cell.config.pipeline_model_parallel_size = 2;
  cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
  const PlannedGraph iteration{.layer = -1};
  EXPECT_TRUE(asks_for_recompute(cell));
  EXPECT_TRUE(stage_recomputes(cell, 0));
  EXPECT_TRUE(graph_recomputes(cell, iteration, 0));
  EXPECT_FALSE(stage_recomputes(cell, 1));
  EXPECT_FALSE(stage_redraws_masks(cell, 1));
  EXPECT_FALSE(graph_recomputes(cell, iteration, 1));
  cell.config.recompute_modules = matrix::RecomputeModules{matrix::RecomputeModule::mlp};
  EXPECT_FALSE(stage_recomputes(cell, 0));
  EXPECT_TRUE(stage_recomputes(cell, 1));
}

TEST(PlannedPieces, FindModulesOfASection) {
  EXPECT_TRUE(holds_module("", "attn"));
  EXPECT_TRUE(holds_module("attn+moe_router", "moe_router"));
  EXPECT_FALSE(holds_module("attn+moe_router", "moe"));
}

}  // namespace
}  // namespace cgconform::suites
