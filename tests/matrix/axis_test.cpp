#include "matrix/axis.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace cgconform::matrix {
namespace {

std::string canonical(std::string_view axis, std::string_view token) {
  const auto value = find_axis_definition(axis)->parse(token);
  return value ? value->token : "(none)";
}

Cell with(std::string_view axis, std::string_view token) {
  Cell cell;
  find_axis_definition(axis)->parse(token)->apply(cell);
  return cell;
}

TEST(AxisTable, HasOneMeaningForEveryName) {
  std::set<std::string_view> names;
  for (const AxisDefinition& row : axis_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    for (const std::string_view alias : row.aliases) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
    }
  }
}

TEST(AxisTable, ReadsItsOwnDefaultsAndExamples) {
  for (const AxisDefinition& row : axis_table()) {
    EXPECT_EQ(canonical(row.name, row.default_token), row.default_token) << row.name;
    for (const std::string_view example : row.examples) {
      EXPECT_EQ(canonical(row.name, example), example) << row.name;
    }
  }
}

TEST(AxisTable, DefaultsLeaveACellAsItIs) {
  for (const AxisDefinition& row : axis_table()) {
    const Cell cell = with(row.name, row.default_token);
    EXPECT_EQ(cell.config, TrainingConfig{}) << row.name;
    EXPECT_EQ(cell.shape, WorkloadShape{}) << row.name;
    EXPECT_EQ(cell.platform, PlatformSettings{}) << row.name;
  }
}

TEST(AxisTable, ValuesOfAnAxisReplaceEachOther) {
  for (const AxisDefinition& row : axis_table()) {
    // Its default stands for whatever sizes the cell has.
    if (row.name == "scale") continue;
    for (const std::string_view example : row.examples) {
      Cell cell = with(row.name, example);
      row.parse(row.default_token)->apply(cell);
      EXPECT_EQ(cell.config, TrainingConfig{}) << row.name << "=" << example;
    }
  }
}

TEST(AxisTable, RefusesValuesOutsideTheAxis) {
  EXPECT_EQ(canonical("impl", "lcoal"), "(none)");
  EXPECT_EQ(canonical("pp", "0"), "(none)");
  EXPECT_EQ(canonical("pp", "2x"), "(none)");
  EXPECT_EQ(canonical("pp", "99999999999"), "(none)");
  EXPECT_EQ(canonical("scope", "attn+attn"), "(none)");
  EXPECT_EQ(canonical("scope", "attn+"), "(none)");
  EXPECT_EQ(canonical("dropout", "1.5"), "(none)");
  EXPECT_EQ(canonical("dropout", "nan"), "(none)");
  EXPECT_EQ(canonical("recompute", "full"), "(none)");
  EXPECT_EQ(canonical("recompute", "full-uniform:0"), "(none)");
}

TEST(ScopeAxis, SpellsModulesInOneOrder) {
  EXPECT_EQ(canonical("scope", "mlp+attn"), "attn+mlp");
  EXPECT_EQ(canonical("cuda_graph_scope", "moe_preprocess+moe_router"),
            "moe_router+moe_preprocess");
  EXPECT_TRUE(with("scope", "layer").config.cuda_graph_scope.empty());
}

TEST(RecomputeAxis, SetsGranularityMethodLayersAndModulesTogether) {
  const TrainingConfig full = with("recompute", "full-block:2").config;
  EXPECT_EQ(full.recompute_granularity, RecomputeGranularity::full);
  EXPECT_EQ(full.recompute_method, RecomputeMethod::block);
  EXPECT_EQ(full.recompute_num_layers, 2);
  const TrainingConfig selective = with("recompute", "mlp+core_attn").config;
  EXPECT_EQ(selective.recompute_granularity, RecomputeGranularity::selective);
  EXPECT_EQ(selective.recompute_modules,
            (RecomputeModules{RecomputeModule::core_attn, RecomputeModule::mlp}));
}

TEST(ModelAxis, SetsWhatTheRulesOfEachKindDemand) {
  const TrainingConfig dropless = with("model", "moe_dropless").config;
  EXPECT_EQ(dropless.num_moe_experts, 4);
  EXPECT_FALSE(dropless.moe_expert_capacity_factor.has_value());
  EXPECT_EQ(dropless.moe_token_dispatcher_type, MoeTokenDispatcherType::alltoall);
  EXPECT_TRUE(dropless.moe_layer_freq.has_dense_layer());
  const TrainingConfig padded = with("model", "moe_drop_and_pad").config;
  EXPECT_EQ(padded.moe_expert_capacity_factor, 1.0F);
  EXPECT_TRUE(padded.moe_pad_expert_input_to_capacity);
  EXPECT_TRUE(with("model", "hybrid_mamba").config.is_hybrid_model);
  EXPECT_FALSE(with("model", "hybrid_mamba").config.num_moe_experts.has_value());
  const TrainingConfig hybrid = with("model", "hybrid_moe").config;
  EXPECT_TRUE(hybrid.is_hybrid_model && hybrid.moe_pad_expert_input_to_capacity);
  EXPECT_EQ(hybrid.num_moe_experts, 4);
}

TEST(AllocatorAxes, SetThePlatformAlone) {
  EXPECT_TRUE(with("alloc", "expandable").platform.expandable_segments);
  EXPECT_TRUE(with("alloc", "expandable").platform.expandable_segments_as_tested);
  EXPECT_TRUE(with("alloc", "async").platform.stream_ordered_segments);
  EXPECT_FALSE(with("alloc", "async").platform.expandable_segments);
  EXPECT_EQ(with("ncclreg", "0").platform.nccl_graph_register, false);
  EXPECT_EQ(with("pool", "separate").platform.graph_pool, GraphPool::separate);
  EXPECT_EQ(with("alloc", "expandable").config, TrainingConfig{});
}

TEST(VariantAxes, SetTheFieldsOfTheirVariantAndTheDefaultSetsThemBack) {
  const auto apply = [](std::string_view axis, std::string_view token, Cell& cell) {
    const auto value = find_axis_definition(axis)->parse(token);
    ASSERT_TRUE(value.has_value()) << token;
    EXPECT_EQ(value->token, token);
    value->apply(cell);
  };
  const Cell plain;
  Cell cell;
  apply("attention", "grouped:2", cell);
  EXPECT_EQ(cell.config.num_query_groups, 2);
  apply("attention", "latent", cell);
  EXPECT_TRUE(cell.config.multi_latent_attention);
  EXPECT_FALSE(cell.config.num_query_groups.has_value());
  apply("attention", "heads", cell);
  apply("packing", "padded", cell);
  EXPECT_EQ(cell.config.sequence_packing, SequencePacking::offline);
  EXPECT_TRUE(cell.config.pad_to_max_length && cell.config.pad_cu_seqlens);
  apply("packing", "none", cell);
  apply("pattern", "MMAF", cell);
  EXPECT_EQ(cell.config.hybrid_layer_pattern, HybridPattern::parse("MM*-"));
  apply("pattern", "MEA", cell);
  EXPECT_EQ(cell.config.hybrid_layer_pattern, HybridPattern::parse("ME*"));
  apply("pattern", "MAMF", cell);
  apply("image_tokens", "2", cell);
  EXPECT_EQ(cell.shape.image_tokens, 2);
  apply("image_tokens", "0", cell);
  EXPECT_EQ(cell.config, plain.config);
  EXPECT_EQ(cell.shape, plain.shape);
  for (const auto& [axis, token] :
       {std::pair{"attention", "grouped:0"}, std::pair{"attention", "grouped"},
        std::pair{"packing", "some"}, std::pair{"pattern", "M*"}, std::pair{"pattern", ""}}) {
    EXPECT_FALSE(find_axis_definition(axis)->parse(token).has_value()) << axis << " " << token;
  }
}

}  // namespace
}  // namespace cgconform::matrix
