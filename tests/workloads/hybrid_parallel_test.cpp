#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/workloads/sharded_results.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::RecomputeModule;
using testing::Layout;

/// A hybrid model over the ranks of a layout.
matrix::Cell hybrid_cell(const Layout& layout, CudaGraphImpl impl = CudaGraphImpl::none,
                         std::string_view pattern = "MM*-") {
  matrix::Cell cell = testing::spread_cell(layout, impl);
  cell.model_kind = matrix::ModelKind::hybrid_mamba;
  cell.config.is_hybrid_model = true;
  cell.config.hybrid_layer_pattern = *matrix::HybridPattern::parse(pattern);
  cell.config.num_layers = static_cast<std::int32_t>(pattern.size());
  cell.config.num_attention_heads = 4;
  cell.config.seq_length = 4;
  cell.config.num_microbatches = 2;
  cell.shape.steps = 3;
  return cell;
}

matrix::Cell sharing_rows(matrix::Cell cell) {
  cell.config.sequence_parallel = true;
  return cell;
}

TEST(HybridOverTensorParallelRanks, GivesTheLossesAndGradientsOfOneRank) {
  testing::expect_results_of_one_rank(hybrid_cell({.parts = 2}));
  testing::expect_results_of_one_rank(hybrid_cell({.parts = 4}, CudaGraphImpl::none, "M-"));
}

TEST(HybridOverTensorParallelRanks, GivesThemInProductsWithReplicasAndStages) {
  testing::expect_results_of_one_rank(hybrid_cell({.parts = 2, .replicas = 2}));
  testing::expect_results_of_one_rank(hybrid_cell({.parts = 2, .stages = 2, .chunks = 2}));
}

TEST(HybridOverTensorParallelRanks, GivesThemWhereRanksShareRows) {
  testing::expect_results_of_one_rank(sharing_rows(hybrid_cell({.parts = 2})));
  testing::expect_results_of_one_rank(
      sharing_rows(hybrid_cell({.parts = 4}, CudaGraphImpl::none, "M-")));
}

void pack(matrix::TrainingConfig& config) {
  config.seq_length = 12;  // Rows of several sequences.
  config.sequence_packing = matrix::SequencePacking::offline;
  config.pad_to_max_length = true;
  config.pad_cu_seqlens = true;
}

TEST(HybridOverTensorParallelRanks, GivesThemWhereSequencesArePacked) {
  matrix::Cell cell = sharing_rows(hybrid_cell({.parts = 2}));
  pack(cell.config);
  testing::expect_results_of_one_rank(cell);
}

matrix::Cell with_experts(matrix::Cell cell) {
  cell.config.num_moe_experts = 4;
  cell.config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  cell.config.moe_aux_loss_coeff = 0.01F;
  cell.config.moe_shared_expert_intermediate_size = 8;
  cell.config.moe_ffn_hidden_size = 8;
  cell.config.moe_expert_capacity_factor = 1.0F;
  cell.config.moe_pad_expert_input_to_capacity = true;
  return cell;
}

TEST(HybridWithExperts, GivesTheLossesAndGradientsOfOneRank) {
  constexpr std::string_view pattern = "ME*E";
  for (const Layout& layout :
       {Layout{.parts = 2}, Layout{.parts = 1, .replicas = 2, .expert_ranks = 2},
        Layout{.parts = 1, .stages = 2}}) {
    testing::expect_results_of_one_rank(
        with_experts(hybrid_cell(layout, CudaGraphImpl::none, pattern)));
  }
  matrix::Cell cell =
      sharing_rows(with_experts(hybrid_cell({.parts = 2}, CudaGraphImpl::none, pattern)));
  cell.config.moe_expert_capacity_factor = 4.0F;  // Which tokens are dropped depends on the rank.
  testing::expect_results_of_one_rank(cell);
}

struct ExpertCase {
  const char* name;
  CudaGraphImpl impl;
  matrix::CudaGraphScope scope;
  /// Pieces of the layers E, M and * that come from graphs.
  std::set<std::string> replayed;
};

class HybridExpertGraphs : public ::testing::TestWithParam<ExpertCase> {};

TEST_P(HybridExpertGraphs, HoldWhatTheScopeNamesAndEqualEager) {
  matrix::Cell cell = with_experts(hybrid_cell({.parts = 1}, GetParam().impl, "EM*"));
  cell.config.cuda_graph_scope = GetParam().scope;
  for (const testing::RankLeg& leg : testing::expect_graphs_equal_eager(cell)) {
    std::set<std::string> replayed;
    for (const ExecutionRecord& execution : leg.record.executions) {
      if (execution.replayed) replayed.insert(std::to_string(execution.layer) + execution.scope);
    }
    EXPECT_EQ(replayed, GetParam().replayed);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Scopes, HybridExpertGraphs,
    ::testing::Values(
        ExpertCase{"local", CudaGraphImpl::local, {}, {"0", "1", "2"}},
        ExpertCase{"local_experts", CudaGraphImpl::local, {CudaGraphModule::moe}, {"0"}},
        ExpertCase{"local_router",
                   CudaGraphImpl::local,
                   {CudaGraphModule::moe_router, CudaGraphModule::mamba},
                   {"0moe_router+moe_preprocess", "0moe_postprocess", "1"}},
        ExpertCase{"callables", CudaGraphImpl::transformer_engine, {}, {"0", "1", "2"}},
        ExpertCase{"callables_router",
                   CudaGraphImpl::transformer_engine,
                   {CudaGraphModule::moe_router, CudaGraphModule::attn},
                   {"0moe_router", "2"}},
        ExpertCase{"full_iteration", CudaGraphImpl::full_iteration, {}, {"-1"}}),
    [](const auto& row) { return std::string(row.param.name); });

struct GraphCase {
  const char* name;
  CudaGraphImpl impl;
  Layout layout;
  void (*changes)(matrix::TrainingConfig& config) = [](matrix::TrainingConfig&) {};
};

class HybridGraphs : public ::testing::TestWithParam<GraphCase> {};

TEST_P(HybridGraphs, EqualEagerAndHoldTheReductionsOfMambaLayers) {
  matrix::Cell cell = hybrid_cell(GetParam().layout, GetParam().impl);
  GetParam().changes(cell.config);
  const bool shares_rows = cell.config.sequence_parallel;
  for (const testing::RankLeg& leg : testing::expect_graphs_equal_eager(cell)) {
    EXPECT_GT(testing::nodes_that_run(leg.record, shares_rows ? "reduce_scatter" : "all_reduce"),
              0U);
  }
}

void share_rows(matrix::TrainingConfig& config) {
  config.sequence_parallel = true;
}
void delay_wgrads(matrix::TrainingConfig& config) {
  config.sequence_parallel = true;
  config.delay_wgrad_compute = true;
}
void recompute_norms(matrix::TrainingConfig& config) {
  config.recompute_granularity = matrix::RecomputeGranularity::selective;
  config.recompute_modules = {RecomputeModule::layernorm};
}
void quantise(matrix::TrainingConfig& config) {
  config.fp8 = matrix::Fp8Format::hybrid;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, HybridGraphs,
    ::testing::Values(
        GraphCase{"local", CudaGraphImpl::local, {}},
        GraphCase{"local_recompute", CudaGraphImpl::local, {}, recompute_norms},
        GraphCase{"callables", CudaGraphImpl::transformer_engine, {.stages = 2, .chunks = 2}},
        GraphCase{"callables_fp8", CudaGraphImpl::transformer_engine, {}, quantise},
        GraphCase{"local_packed_pipeline", CudaGraphImpl::local, {.stages = 2}, pack},
        GraphCase{
            "callables_packed_pipeline", CudaGraphImpl::transformer_engine, {.stages = 2}, pack},
        GraphCase{"callables_delayed", CudaGraphImpl::transformer_engine, {}, delay_wgrads},
        GraphCase{"full_iteration", CudaGraphImpl::full_iteration, {.replicas = 2}},
        GraphCase{"full_iteration_shared_rows", CudaGraphImpl::full_iteration, {}, share_rows}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cgconform::workloads
