#include "workloads/capture/capture_plan.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "workloads/faults/fault_table.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;

matrix::Cell cell_with(CudaGraphImpl impl, matrix::CudaGraphScope scope = {}) {
  matrix::Cell cell;
  cell.config.cuda_graph_impl = impl;
  cell.config.cuda_graph_scope = scope;
  return cell;
}

TEST(CapturePlan, ModuleScopesOfLocalSelectWholeLayersByKind) {
  using M = CudaGraphModule;
  EXPECT_TRUE(plan_capture(cell_with(CudaGraphImpl::local)).captures_anything());
  EXPECT_TRUE(plan_capture(cell_with(CudaGraphImpl::local, {M::attn})).captures_anything());
  EXPECT_TRUE(plan_capture(cell_with(CudaGraphImpl::local, {M::mlp})).captures_anything());
  EXPECT_FALSE(plan_capture(cell_with(CudaGraphImpl::local, {M::mamba})).captures_anything());
  EXPECT_FALSE(plan_capture(cell_with(CudaGraphImpl::local, {M::moe_router})).captures_anything());
}

TEST(CapturePlan, FullIterationIsAScopeOfLocalOrAnImplementation) {
  EXPECT_EQ(plan_capture(cell_with(CudaGraphImpl::full_iteration)).kind,
            CaptureKind::full_iteration);
  EXPECT_EQ(plan_capture(cell_with(CudaGraphImpl::local, {CudaGraphModule::full_iteration})).kind,
            CaptureKind::full_iteration);
  EXPECT_EQ(plan_capture(cell_with(CudaGraphImpl::none, {CudaGraphModule::full_iteration})).kind,
            CaptureKind::none);
}

TEST(CapturePlan, RaisesTheStepsUntilGraphsAreReplayedAfterTheirCapture) {
  matrix::Cell cell = cell_with(CudaGraphImpl::full_iteration);
  cell.shape.steps = 4;
  cell.config.cuda_graph_warmup_steps = 3;
  EXPECT_EQ(plan_capture(cell).training_steps, 6);
  cell.shape.eval_interval = 2;
  EXPECT_EQ(plan_capture(cell).training_steps, 10);
  cell.shape.steps = 20;
  EXPECT_EQ(plan_capture(cell).training_steps, 20);
}

TEST(CapturePlan, ModuleScopesOfTransformerEngineSelectModulesOfEveryLayer) {
  using M = CudaGraphModule;
  const auto modules = [](const matrix::CudaGraphScope& scope) {
    return plan_capture(cell_with(CudaGraphImpl::transformer_engine, scope)).captured_modules.at(0);
  };
  EXPECT_EQ(modules({}), (std::vector<std::string>{"attn", "mlp"}));
  EXPECT_EQ(modules({M::full}), (std::vector<std::string>{"attn", "mlp"}));
  EXPECT_EQ(modules({M::attn}), std::vector<std::string>{"attn"});
  EXPECT_EQ(modules({M::mlp}), std::vector<std::string>{"mlp"});
  EXPECT_EQ(modules({M::mamba}), std::vector<std::string>{});
}

using Modules = std::vector<std::string>;

/// Modules of a layer with experts and of a dense one that a scope selects.
std::vector<Modules> selected(CudaGraphImpl impl, const matrix::CudaGraphScope& scope) {
  matrix::Cell cell = cell_with(impl, scope);
  cell.config.num_layers = 2;
  cell.config.num_moe_experts = 4;
  cell.config.moe_layer_freq.every = 2;
  cell.config.moe_expert_capacity_factor = 1.0F;
  cell.config.moe_pad_expert_input_to_capacity = true;
  return plan_capture(cell).captured_modules;
}

const Modules dense_layer{"attn", "mlp"};
const Modules expert_layer{"attn", "moe_router", "moe_preprocess", "moe_experts",
                           "moe_postprocess"};

TEST(CapturePlan, ScopesOfTransformerEngineSelectTheModulesOfLayersWithExperts) {
  using M = CudaGraphModule;
  constexpr auto impl = CudaGraphImpl::transformer_engine;
  EXPECT_EQ(selected(impl, {}), (std::vector{expert_layer, dense_layer}));
  EXPECT_EQ(selected(impl, {M::moe}),
            (std::vector{Modules(expert_layer.begin() + 1, expert_layer.end()), Modules{}}));
  EXPECT_EQ(selected(impl, {M::moe_router}), (std::vector{Modules{"moe_router"}, Modules{}}));
  EXPECT_EQ(selected(impl, {M::attn, M::moe_router, M::moe_preprocess}),
            (std::vector{Modules{"attn", "moe_router", "moe_preprocess"}, Modules{"attn"}}));
}

TEST(CapturePlan, ScopesOfLocalSelectLayersWithExpertsByTheirKind) {
  using M = CudaGraphModule;
  constexpr auto impl = CudaGraphImpl::local;
  EXPECT_EQ(selected(impl, {}), (std::vector{expert_layer, dense_layer}));
  EXPECT_EQ(selected(impl, {M::attn}), (std::vector{Modules{}, dense_layer}));
  EXPECT_EQ(selected(impl, {M::moe}), (std::vector{expert_layer, Modules{}}));
  EXPECT_EQ(selected(impl, {M::moe_router, M::moe_preprocess}),
            (std::vector{Modules{"moe_router", "moe_preprocess", "moe_postprocess"}, Modules{}}));
}

TEST(CapturePlan, CallablesAreReplayedInTwoStepsAfterTheFirst) {
  matrix::Cell cell = cell_with(CudaGraphImpl::transformer_engine);
  cell.shape.steps = 1;
  cell.config.cuda_graph_warmup_steps = 3;
  EXPECT_EQ(plan_capture(cell).training_steps, 6);
}

TEST(FaultTable, HasOneRowForEveryFaultInOrderWithItsOwnId) {
  std::set<std::string> ids;
  for (std::size_t i = 0; i < fault_table().size(); ++i) {
    const FaultRow& row = fault_table()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.fault), i);
    EXPECT_TRUE(ids.emplace(row.id).second);
    EXPECT_FALSE(row.injection.empty());
    EXPECT_EQ(row.applies(cell_with(CudaGraphImpl::none)), false) << row.id;
  }
}

}  // namespace
}  // namespace cgconform::workloads
