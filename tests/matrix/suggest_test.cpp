#include "matrix/suggest.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "matrix/constraint_engine.hpp"

namespace cgconform::matrix {
namespace {

using M = CudaGraphModule;

TrainingConfig tracked(CudaGraphImpl impl, CudaGraphScope scope) {
  TrainingConfig config;
  config.cuda_graph_impl = impl;
  config.cuda_graph_scope = scope;
  config.use_te_rng_tracker = true;
  config.te_rng_tracker = true;
  return config;
}

std::vector<std::string> names_of(const Repair& repair) {
  std::vector<std::string> names;
  for (const Change& change : repair.changes) names.push_back(change.name);
  return names;
}

TEST(Suggest, IsSilentAboutALegalConfiguration) {
  const TrainingConfig config = tracked(CudaGraphImpl::transformer_engine, {M::attn});
  EXPECT_TRUE(suggest_repairs(Ruleset::seed, all_layers, config, {}).empty());
}

TEST(Suggest, TurnsTheMissingTrackersOnFirst) {
  TrainingConfig config = tracked(CudaGraphImpl::transformer_engine, {M::attn});
  config.use_te_rng_tracker = false;
  config.te_rng_tracker = false;
  const std::vector<Repair> repairs = suggest_repairs(Ruleset::seed, all_layers, config, {});
  ASSERT_FALSE(repairs.empty());
  EXPECT_EQ(names_of(repairs.front()),
            (std::vector<std::string>{"use_te_rng_tracker", "te_rng_tracker"}));
}

TEST(Suggest, KeepsGraphsOnWhereASmallChangeIsEnough) {
  TrainingConfig config = tracked(CudaGraphImpl::local, {M::full_iteration});
  const std::vector<Repair> repairs = suggest_repairs(Ruleset::seed, all_layers, config, {});
  ASSERT_FALSE(repairs.empty());
  EXPECT_EQ(repairs.front().changes.size(), 1U);
  EXPECT_EQ(repairs.front().changes.front().name, "check_for_nan_in_loss");
  EXPECT_EQ(repairs.front().changes.front().from, "true");
  EXPECT_EQ(repairs.front().changes.front().to, "false");
}

TEST(Suggest, TakesMethodAndLayersAwayWithFullRecompute) {
  TrainingConfig config = tracked(CudaGraphImpl::transformer_engine, {M::mlp});
  config.recompute_granularity = RecomputeGranularity::full;
  config.recompute_method = RecomputeMethod::uniform;
  config.recompute_num_layers = 2;
  const std::vector<Repair> repairs =
      suggest_repairs(Ruleset::mcore_0_20, all_layers, config, {}, 8);
  bool seen = false;
  for (const Repair& repair : repairs) {
    const std::vector<std::string> names = names_of(repair);
    if (std::find(names.begin(), names.end(), "recompute_granularity") == names.end()) continue;
    seen = true;
    EXPECT_NE(std::find(names.begin(), names.end(), "recompute_method"), names.end());
    EXPECT_NE(std::find(names.begin(), names.end(), "recompute_num_layers"), names.end());
  }
  EXPECT_TRUE(seen);
}

TEST(Suggest, ChangesTheEnvironmentWhereThatIsTheRule) {
  const TrainingConfig config = tracked(CudaGraphImpl::transformer_engine, {M::attn});
  PlatformSettings platform;
  platform.expandable_segments = true;
  platform.expandable_segments_as_tested = true;
  const std::vector<Repair> repairs = suggest_repairs(Ruleset::seed, all_layers, config, platform);
  ASSERT_FALSE(repairs.empty());
  EXPECT_EQ(names_of(repairs.front()), (std::vector<std::string>{"NCCL_GRAPH_REGISTER"}));
}

TEST(Suggest, ComesBestFirstAndOnlyWhereSomethingIsIllegal) {
  for (Ruleset ruleset : all_rulesets()) {
    for (std::uint32_t scope = 0; scope < 64; scope += 5) {
      TrainingConfig config;
      config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
      config.cuda_graph_scope = CudaGraphScope::from_bits(scope);
      config.recompute_granularity = RecomputeGranularity::selective;
      config.num_moe_experts = scope % 2 == 0 ? std::optional<int>(4) : std::nullopt;
      const std::vector<Repair> repairs = suggest_repairs(ruleset, all_layers, config, {});
      Evaluation evaluation;
      evaluate(ruleset, config, {}, evaluation);
      EXPECT_EQ(repairs.empty(), evaluation.legal()) << ruleset_name(ruleset) << ' ' << scope;
      EXPECT_TRUE(std::is_sorted(repairs.begin(), repairs.end(),
                                 [](const auto& a, const auto& b) { return a.cost < b.cost; }));
    }
  }
}

std::vector<CudaGraphScope> legal_rungs(Ruleset ruleset, const TrainingConfig& config) {
  std::vector<CudaGraphScope> scopes;
  for (const ScopeRung& rung : scope_ladder(ruleset, all_layers, config, {})) {
    if (rung.violations.empty()) scopes.push_back(rung.scope);
  }
  return scopes;
}

TEST(ScopeLadder, DenseModelsGraphAttentionThenMlp) {
  EXPECT_EQ(legal_rungs(Ruleset::seed, {}),
            (std::vector<CudaGraphScope>{{M::attn}, {M::attn, M::mlp}}));
}

TEST(ScopeLadder, DroplessModelsGraphAttentionRouterAndPreprocess) {
  TrainingConfig config;
  config.num_moe_experts = 8;
  EXPECT_EQ(legal_rungs(Ruleset::seed, config).back(),
            (CudaGraphScope{M::attn, M::moe_router, M::moe_preprocess}));
}

TEST(ScopeLadder, FullIterationComesLastAndOnlyWhereItsRulesHold) {
  TrainingConfig config;
  config.check_for_nan_in_loss = false;
  EXPECT_EQ(legal_rungs(Ruleset::seed, config).back(), CudaGraphScope{M::full_iteration});
}

}  // namespace
}  // namespace cgconform::matrix
