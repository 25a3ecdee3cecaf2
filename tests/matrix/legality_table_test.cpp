#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "matrix/constraint_engine.hpp"
#include "matrix/constraint_table.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {
namespace {

using I = CudaGraphImpl;
using M = CudaGraphModule;
using R = RecomputeModule;

bool is_legal(Ruleset ruleset, const TrainingConfig& config) {
  Evaluation evaluation;
  evaluate(ruleset, {Layer::config}, config, PlatformSettings{}, evaluation);
  return evaluation.legal();
}

struct Graph {
  I impl;
  CudaGraphScope scope;
};

const std::vector<Graph>& recompute_columns() {
  static const std::vector<Graph> columns{
      {I::local, {}},
      {I::local, {M::attn}},
      {I::local, {M::mlp}},
      {I::local, {M::moe}},
      {I::local, {M::moe_router}},
      {I::local, {M::mamba}},
      {I::transformer_engine, {}},
      {I::transformer_engine, {M::attn}},
      {I::transformer_engine, {M::mlp}},
      {I::transformer_engine, {M::moe}},
      {I::transformer_engine, {M::moe_router}},
      {I::transformer_engine, {M::moe_router, M::moe_preprocess}},
      {I::transformer_engine, {M::attn, M::moe_router, M::moe_preprocess}},
      {I::transformer_engine, {M::attn, M::mlp, M::moe}},
      {I::transformer_engine, {M::mamba}},
      {I::full_iteration, {}},
  };
  return columns;
}

/// A mixed dense and MoE model with drop-and-pad routing and shared experts.
TrainingConfig mixed_model(float dropout) {
  TrainingConfig config;
  config.num_moe_experts = 4;
  config.moe_layer_freq.every = 2;
  config.moe_token_dispatcher_type = MoeTokenDispatcherType::alltoall;
  config.moe_expert_capacity_factor = 1.0F;
  config.moe_pad_expert_input_to_capacity = true;
  config.moe_shared_expert_intermediate_size = 64;
  config.moe_grouped_gemm = true;
  config.multi_latent_attention = true;
  config.enable_mhc_connections = true;
  config.experimental_attention_variant = ExperimentalAttentionVariant::gdn;
  config.attention_dropout = dropout;
  config.hidden_dropout = dropout;
  return config;
}

struct RecomputeRow {
  std::vector<R> modules;
  /// For each column a letter without dropout and one with: L legal, X illegal.
  std::string_view legality;
};

TEST(LegalityTable, SelectiveRecomputeAgreesWithTheRealClass) {
  const std::array<RecomputeRow, 4> rows{{
      {{R::core_attn}, "LX LX LL LL LL LL LX LX LL LL LL LL LX LX LL LX"},
      {{R::mlp}, "LX LL LX LL LL LL LX LL LX LL LL LL LL LX LL LX"},
      {{R::moe}, "LX LL LL LX LL LL LX LL LL LX XX XX XX LX LL LX"},
      {{R::shared_experts, R::moe_act, R::layernorm, R::mla_up_proj, R::gdn_norm_out,
        R::gdp_in_proj, R::gdp_qkv, R::mhc},
       "LL LL LL LL LL LL LL LL LL LL LL LL LL LL LL LL"},
  }};
  for (const RecomputeRow& row : rows) {
    for (R module : row.modules) {
      for (std::size_t column = 0; column < recompute_columns().size(); ++column) {
        for (int dropout = 0; dropout < 2; ++dropout) {
          TrainingConfig config = mixed_model(dropout == 1 ? 0.1F : 0.0F);
          config.cuda_graph_impl = recompute_columns()[column].impl;
          config.cuda_graph_scope = recompute_columns()[column].scope;
          config.recompute_granularity = RecomputeGranularity::selective;
          config.recompute_modules = RecomputeModules{module};
          const bool expected = row.legality[3 * column + static_cast<std::size_t>(dropout)] == 'L';
          EXPECT_EQ(is_legal(Ruleset::mcore_0_20, config), expected)
              << "module " << static_cast<int>(module) << " column " << column << " dropout "
              << dropout;
        }
      }
    }
  }
}

TEST(LegalityTable, FullRecomputeIsLegalWithTheFullIterationOnly) {
  for (const Graph& graph : recompute_columns()) {
    for (float dropout : {0.0F, 0.1F}) {
      TrainingConfig config = mixed_model(dropout);
      config.cuda_graph_impl = graph.impl;
      config.cuda_graph_scope = graph.scope;
      config.recompute_granularity = RecomputeGranularity::full;
      config.recompute_method = RecomputeMethod::uniform;
      config.recompute_num_layers = 1;
      EXPECT_EQ(is_legal(Ruleset::mcore_0_20, config), graph.impl == I::full_iteration);
    }
  }
}

enum class Routing { dense, dropless, dropless_padded, capacity, drop_and_pad };

TrainingConfig routed(Routing routing, bool all_moe) {
  TrainingConfig config;
  if (routing == Routing::dense) return config;
  config.num_moe_experts = 4;
  config.moe_layer_freq.every = all_moe ? 1 : 2;
  config.moe_token_dispatcher_type = MoeTokenDispatcherType::alltoall;
  if (routing == Routing::dropless_padded) {
    config.moe_router_padding_for_fp8 = true;
    config.fp8 = Fp8Format::hybrid;
  }
  if (routing == Routing::capacity || routing == Routing::drop_and_pad) {
    config.moe_expert_capacity_factor = 1.0F;
    config.moe_pad_expert_input_to_capacity = routing == Routing::drop_and_pad;
  }
  return config;
}

TEST(LegalityTable, MoeScopesAgreeWithTheRealClass) {
  struct Row {
    Routing routing;
    /// whole layer, moe, moe_router (TE then local), router and preprocess, mlp in mixed layers,
    /// mlp where every layer is a MoE layer
    std::string_view legality;
  };
  constexpr std::array<Row, 5> rows{{{Routing::dense, "LXXXXL-"},
                                     {Routing::dropless, "LXLLLLX"},
                                     {Routing::dropless_padded, "LXLXXLX"},
                                     {Routing::capacity, "LXLXXLX"},
                                     {Routing::drop_and_pad, "LLLLLLX"}}};
  struct Column {
    I impl = I::none;
    CudaGraphScope scope;
    bool all_moe = false;
  };
  const std::array<Column, 7> columns{{
      {I::transformer_engine, {}, false},
      {I::transformer_engine, {M::moe}, false},
      {I::transformer_engine, {M::moe_router}, false},
      {I::local, {M::moe_router}, false},
      {I::transformer_engine, {M::moe_router, M::moe_preprocess}, false},
      {I::transformer_engine, {M::mlp}, false},
      {I::transformer_engine, {M::mlp}, true},
  }};
  for (Ruleset ruleset : {Ruleset::mcore_0_17, Ruleset::mcore_0_20}) {
    for (const Row& row : rows) {
      for (std::size_t i = 0; i < columns.size(); ++i) {
        if (row.legality[i] == '-') continue;
        TrainingConfig config = routed(row.routing, columns[i].all_moe);
        config.cuda_graph_impl = columns[i].impl;
        config.cuda_graph_scope = columns[i].scope;
        EXPECT_EQ(is_legal(ruleset, config), row.legality[i] == 'L')
            << ruleset_name(ruleset) << " routing " << static_cast<int>(row.routing) << " column "
            << i;
      }
    }
  }
}

TEST(LegalityTable, CapacityRoutingMayCapturePreprocessUnderOtherDispatchers) {
  for (MoeTokenDispatcherType dispatcher :
       {MoeTokenDispatcherType::allgather, MoeTokenDispatcherType::flex}) {
    TrainingConfig config = routed(Routing::capacity, false);
    config.cuda_graph_impl = I::transformer_engine;
    config.cuda_graph_scope = {M::moe_router, M::moe_preprocess};
    config.moe_token_dispatcher_type = dispatcher;
    EXPECT_TRUE(is_legal(Ruleset::mcore_0_20, config));
  }
}

}  // namespace
}  // namespace cgconform::matrix
