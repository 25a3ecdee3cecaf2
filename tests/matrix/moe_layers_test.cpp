#include "matrix/moe_layers.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "matrix/built_features.hpp"

namespace cgconform::matrix {
namespace {

std::vector<bool> moe_layers(const Cell& cell) {
  std::vector<bool> layers;
  for (std::int32_t layer = 0; layer < cell.config.num_layers; ++layer) {
    layers.push_back(is_moe_layer(cell, layer));
  }
  return layers;
}

Cell cell_with_experts() {
  Cell cell;
  cell.config.num_layers = 4;
  cell.config.num_moe_experts = 4;
  return cell;
}

TEST(MoeLayers, AreAllEveryNthOrThoseOfAPattern) {
  Cell cell = cell_with_experts();
  EXPECT_EQ(moe_layers(cell), (std::vector<bool>{true, true, true, true}));
  cell.config.moe_layer_freq.every = 2;
  EXPECT_EQ(moe_layers(cell), (std::vector<bool>{true, false, true, false}));
  cell.config.moe_layer_freq.pattern_length = 4;
  cell.config.moe_layer_freq.set_pattern_at(1);
  cell.config.moe_layer_freq.set_pattern_at(2);
  EXPECT_EQ(moe_layers(cell), (std::vector<bool>{false, true, true, false}));
}

TEST(MoeLayers, AreNoneWithoutSeveralExperts) {
  Cell cell = cell_with_experts();
  for (const std::optional<std::int32_t> experts : {std::optional<std::int32_t>(), {1}}) {
    cell.config.num_moe_experts = experts;
    EXPECT_FALSE(is_moe_layer(cell, 0));
  }
}

TEST(MoeLayers, OfAHybridModelAreThoseOfItsPattern) {
  Cell cell = cell_with_experts();
  cell.config.is_hybrid_model = true;
  EXPECT_EQ(moe_layers(cell), (std::vector<bool>{false, false, false, true})) << "M*ME";
  cell.config.hybrid_layer_pattern = *HybridPattern::parse("EM");
  EXPECT_EQ(moe_layers(cell), (std::vector<bool>{true, false, true, false}));
  cell.config.cuda_graph_scope = {CudaGraphModule::moe_router};
  EXPECT_TRUE(scope_selects(cell, 0));
  EXPECT_FALSE(scope_selects(cell, 1));
  EXPECT_TRUE(has_experts(cell));
  EXPECT_EQ(missing_feature(cell, TargetDevice::reference), nullptr);
  cell.config.num_moe_experts.reset();
  ASSERT_NE(missing_feature(cell, TargetDevice::reference), nullptr);
  cell.config.hybrid_layer_pattern = {};
  EXPECT_EQ(missing_feature(cell, TargetDevice::reference), nullptr) << "M*M-";
}

TEST(MoeLayers, ScopesOfSingleLayersTakeThemByKind) {
  Cell cell = cell_with_experts();
  cell.config.moe_layer_freq.every = 2;
  cell.config.cuda_graph_impl = CudaGraphImpl::local;
  const auto selected = [&](CudaGraphScope scope) {
    cell.config.cuda_graph_scope = scope;
    return std::pair(scope_selects(cell, 0), scope_selects(cell, 1));
  };
  EXPECT_EQ(selected({}), std::pair(true, true));
  EXPECT_EQ(selected({CudaGraphModule::moe_router}), std::pair(true, false));
  EXPECT_EQ(selected({CudaGraphModule::attn}), std::pair(false, true));
  cell.config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  EXPECT_EQ(selected({CudaGraphModule::attn}), std::pair(true, true));
  EXPECT_EQ(selected({CudaGraphModule::mlp}), std::pair(false, true));
}

TEST(MoeLayers, AStageMayBeWithoutALayerOfTheScopeButNotAllMay) {
  Cell cell = cell_with_experts();
  cell.config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  cell.config.cuda_graph_scope = {CudaGraphModule::moe_router};
  cell.config.pipeline_model_parallel_size = 2;
  cell.config.moe_layer_freq.pattern_length = 4;
  cell.config.moe_layer_freq.set_pattern_at(0);
  EXPECT_EQ(missing_feature(cell, TargetDevice::reference), nullptr);
  cell.config.pipeline_model_parallel_size = 1;
  cell.config.cuda_graph_impl = CudaGraphImpl::local;
  cell.config.moe_layer_freq.every = 1;
  cell.config.moe_layer_freq.pattern_length = 0;
  cell.config.cuda_graph_scope = {CudaGraphModule::attn};
  ASSERT_NE(missing_feature(cell, TargetDevice::reference), nullptr);
}

}  // namespace
}  // namespace cgconform::matrix
