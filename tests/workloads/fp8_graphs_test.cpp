#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/fp8_cell.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::Fp8Format;
using matrix::Fp8Recipe;
using testing::fp8_cell;

struct LegCase {
  const char* name;
  CudaGraphImpl impl;
  Fp8Recipe recipe = Fp8Recipe::delayed;
  std::int32_t parts = 1;
  std::int32_t replicas = 1;
  std::int32_t stages = 1;
  bool recompute = false;
  bool latent = false;
  bool hybrid = false;
  enum class Experts { none, dropless, padded } experts = Experts::none;
  std::int32_t expert_ranks = 1;
  matrix::CudaGraphScope scope = {};
  matrix::RecomputeModules checkpoints = {};
};

/// A dense layer and one with experts and a shared one.
void give_experts(matrix::Cell& cell, const LegCase& row) {
  cell.config.expert_model_parallel_size = row.expert_ranks;
  cell.config.num_moe_experts = 4;
  cell.config.moe_layer_freq.every = 2;
  cell.config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  cell.config.moe_shared_expert_intermediate_size = 8;
  cell.config.moe_ffn_hidden_size = 8;
  if (row.experts != LegCase::Experts::padded) return;
  cell.config.moe_expert_capacity_factor = 1.0F;
  cell.config.moe_pad_expert_input_to_capacity = true;
}

class Fp8Graphs : public ::testing::TestWithParam<LegCase> {};

TEST_P(Fp8Graphs, EqualEagerBitForBitAndLeaveNoFindings) {
  matrix::Cell cell = fp8_cell(GetParam().impl, Fp8Format::hybrid, GetParam().recipe);
  cell.config.tensor_model_parallel_size = GetParam().parts;
  cell.config.data_parallel_size = GetParam().replicas;
  cell.config.pipeline_model_parallel_size = GetParam().stages;
  cell.config.num_microbatches = 2;
  cell.shape.eval_interval = 2;
  cell.config.multi_latent_attention = GetParam().latent;
  cell.config.is_hybrid_model = GetParam().hybrid;
  cell.config.cuda_graph_scope = GetParam().scope;
  if (GetParam().hybrid) cell.config.num_layers = 4;
  if (GetParam().experts != LegCase::Experts::none) give_experts(cell, GetParam());
  if (GetParam().recompute) {
    cell.config.recompute_granularity = matrix::RecomputeGranularity::full;
    cell.config.recompute_method = matrix::RecomputeMethod::uniform;
  }
  if (!GetParam().checkpoints.empty()) {
    cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
    cell.config.recompute_modules = GetParam().checkpoints;
  }
  for (const bool instrumented : {false, true}) {
    const auto expected = testing::run_ranks(cell, {.instrumented = instrumented});
    const auto actual = testing::run_ranks(
        cell, {.kind = LegKind::graph, .instrumented = instrumented, .replay_seed = 4});
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      const LegRecord& record = actual[rank].record;
      ASSERT_EQ(expected[rank].record.error, "");
      ASSERT_EQ(record.error, "");
      EXPECT_EQ(
          testing::differences(expected[rank].bytes, actual[rank].bytes,
                               instrumented || GetParam().impl != CudaGraphImpl::full_iteration),
          std::vector<std::string>{});
      EXPECT_TRUE(record.edge_findings.empty());
      EXPECT_TRUE(record.address_findings.empty());
      EXPECT_FALSE(record.graphs.empty());
      EXPECT_EQ(std::any_of(record.graphs.begin(), record.graphs.end(),
                            [](const GraphRecord& graph) {
                              return std::any_of(
                                  graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
                                    return node.label.find("recompute") != std::string::npos;
                                  });
                            }),
                GetParam().recompute || !GetParam().checkpoints.empty());
      for (const CaptureAudit& audit : record.captures) {
        EXPECT_EQ(audit.hash_before, audit.hash_after) << audit.changed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cells, Fp8Graphs,
    ::testing::Values(
        LegCase{"local", CudaGraphImpl::local},
        LegCase{"local_current", CudaGraphImpl::local, Fp8Recipe::tensorwise},
        LegCase{"callables", CudaGraphImpl::transformer_engine},
        LegCase{"callables_pipeline", CudaGraphImpl::transformer_engine, Fp8Recipe::delayed, 1, 1,
                2},
        LegCase{"full_iteration_recompute", CudaGraphImpl::full_iteration, Fp8Recipe::delayed, 1, 1,
                1, true},
        LegCase{"full_iteration_replicas", CudaGraphImpl::full_iteration, Fp8Recipe::delayed, 1, 2},
        LegCase{.name = "local_latent", .impl = CudaGraphImpl::local, .latent = true},
        LegCase{.name = "callables_latent_split",
                .impl = CudaGraphImpl::transformer_engine,
                .parts = 2,
                .latent = true},
        LegCase{
            .name = "full_iteration_hybrid", .impl = CudaGraphImpl::full_iteration, .hybrid = true},
        LegCase{"callables_split", CudaGraphImpl::transformer_engine, Fp8Recipe::delayed, 2, 1},
        LegCase{.name = "local_experts",
                .impl = CudaGraphImpl::local,
                .experts = LegCase::Experts::padded},
        LegCase{.name = "callables_experts_spread",
                .impl = CudaGraphImpl::transformer_engine,
                .recipe = Fp8Recipe::tensorwise,
                .replicas = 2,
                .experts = LegCase::Experts::padded,
                .expert_ranks = 2,
                .scope = {matrix::CudaGraphModule::moe}},
        LegCase{.name = "callables_routers_spread",
                .impl = CudaGraphImpl::transformer_engine,
                .parts = 2,
                .replicas = 2,
                .experts = LegCase::Experts::dropless,
                .expert_ranks = 2,
                .scope = {matrix::CudaGraphModule::moe_router,
                          matrix::CudaGraphModule::moe_preprocess}},
        LegCase{.name = "callables_checkpoints",
                .impl = CudaGraphImpl::transformer_engine,
                .checkpoints = {matrix::RecomputeModule::mlp}},
        LegCase{
            .name = "callables_checkpoints_of_experts",
            .impl = CudaGraphImpl::transformer_engine,
            .experts = LegCase::Experts::padded,
            .scope = {matrix::CudaGraphModule::moe},
            .checkpoints = {matrix::RecomputeModule::moe, matrix::RecomputeModule::shared_experts}},
        LegCase{.name = "full_iteration_experts",
                .impl = CudaGraphImpl::full_iteration,
                .replicas = 2,
                .recompute = true,
                .experts = LegCase::Experts::padded,
                .expert_ranks = 2}),
    [](const auto& row) { return row.param.name; });

class ScalesOfAStage : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Experts, ScalesOfAStage, ::testing::Bool());

TEST_P(ScalesOfAStage, AreThoseOfAllItsRanks) {
  matrix::Cell cell = fp8_cell(CudaGraphImpl::none, Fp8Format::hybrid, Fp8Recipe::delayed);
  cell.config.tensor_model_parallel_size = 2;
  cell.config.data_parallel_size = 2;
  if (GetParam()) {
    give_experts(cell, {.experts = LegCase::Experts::dropless, .expert_ranks = 2});
  }
  const auto ranks = testing::run_ranks(cell, {});
  std::size_t compared = 0;
  for (const auto& [key, bytes] : ranks[0].bytes) {
    if (std::get<5>(key) != "fp8 scale") continue;
    for (const auto& other : ranks) EXPECT_EQ(other.bytes.at(key), bytes);
    ++compared;
  }
  EXPECT_EQ(compared, 4U) << "steps";
}

TEST(DelayedScaling, MovesOnOncePerStepWhateverIsRecomputed) {
  for (const bool recompute : {false, true}) {
    matrix::Cell cell = fp8_cell(CudaGraphImpl::none, Fp8Format::e4m3, Fp8Recipe::delayed);
    if (recompute) {
      cell.config.recompute_granularity = matrix::RecomputeGranularity::full;
      cell.config.recompute_method = matrix::RecomputeMethod::uniform;
    }
    std::size_t steps = 0;
    const auto ranks = testing::run_ranks(cell, {});
    for (const auto& [key, bytes] : ranks.at(0).bytes) {
      if (std::get<5>(key) != "fp8 updates") continue;
      float updates = 0.0F;
      std::memcpy(&updates, bytes.data(), sizeof updates);
      EXPECT_EQ(updates, static_cast<float>(std::get<1>(key) + 1));
      ++steps;
    }
    EXPECT_EQ(steps, 4U);
  }
}

}  // namespace
}  // namespace cgconform::workloads
