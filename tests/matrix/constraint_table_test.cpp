#include "matrix/constraint_table.hpp"

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "matrix/constraint_document.hpp"
#include "matrix/constraint_engine.hpp"
#include "matrix/error.hpp"
#include "matrix/field_table.hpp"
#include "tests/build_paths.hpp"

namespace cgconform::matrix {
namespace {

TEST(ConstraintTable, EveryRowIsComplete) {
  for (const Rule& rule : constraint_table()) {
    EXPECT_FALSE(rule.id.empty());
    for (std::string_view text :
         {rule.statement, rule.message, rule.remedy, rule.consequence, rule.source}) {
      EXPECT_FALSE(text.empty()) << rule.id;
    }
    EXPECT_FALSE(rule.rulesets.empty()) << rule.id;
  }
}

TEST(ConstraintTable, NamesOnlyFieldsOfTheFieldTable) {
  for (const Rule& rule : constraint_table()) {
    bool any = false;
    for (std::string_view field : rule.fields) {
      if (field.empty()) continue;
      any = true;
      EXPECT_TRUE(find_field(field).has_value()) << rule.id << ": " << field;
    }
    if (rule.decidable()) {
      EXPECT_TRUE(any) << rule.id;
    }
  }
}

TEST(ConstraintTable, HasOneRowForEachRuleRulesetAndAction) {
  std::set<std::tuple<std::string_view, Ruleset, bool>> seen;
  for (const Rule& rule : constraint_table()) {
    for (Ruleset ruleset : all_rulesets()) {
      if (!rule.rulesets.contains(ruleset)) continue;
      const bool repairs = rule.action == Action::auto_fix;
      EXPECT_TRUE(seen.emplace(rule.id, ruleset, repairs).second)
          << rule.id << " twice in " << ruleset_name(ruleset);
    }
  }
}

TEST(ConstraintTable, RepairsBelongToAutoFixRowsOnly) {
  for (const Rule& rule : constraint_table()) {
    if (rule.repair != nullptr) {
      EXPECT_EQ(rule.action, Action::auto_fix) << rule.id;
    }
    if (rule.action == Action::behaviour) {
      EXPECT_FALSE(rule.decidable()) << rule.id;
    }
  }
}

TEST(ConstraintTable, LaterRulesetsContainTheRulesOfMegatronCore) {
  for (const Rule& rule : constraint_table()) {
    if (!rule.rulesets.contains(Ruleset::mcore_0_20) || rule.layer != Layer::config ||
        rule.action != Action::reject) {
      continue;
    }
    Rulesets rulesets;
    for (RuleIndex row : find_rules(rule.id)) rulesets = rulesets | rule_at(row).rulesets;
    EXPECT_TRUE(rulesets.contains(Ruleset::bridge_0_6)) << rule.id;
    // Megatron-LM turns the one setting off that this rule is about.
    if (rule.id == "allgather-no-variable-seq") continue;
    EXPECT_TRUE(rulesets.contains(Ruleset::megatron_lm_0_20)) << rule.id;
  }
}

TEST(ConstraintTable, SourcesAreSpeltOut) {
  for (RuleIndex row : find_rules("moe-xor-router")) {
    EXPECT_EQ(rule_source(row), "core/transformer/transformer_config.py:2817-2820");
  }
}

TEST(ConstraintDocument, CommittedFileEqualsTheTable) {
  std::ifstream file(fmt::format("{}/docs/constraints.md", CGCONFORM_SOURCE_DIR));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), explain_all_as_markdown())
      << "run: cgconform explain --all=markdown > docs/constraints.md";
}

TEST(ConstraintDocument, ExplainsEveryVariantOfARule) {
  const std::string text = explain_rule("full-iter-nan-check");
  EXPECT_NE(text.find("megatron-lm-0.20"), std::string::npos);
  EXPECT_NE(text.find("bridge-0.6"), std::string::npos);
}

TEST(ConstraintDocument, NamesTheNearestRule) {
  try {
    explain_rule("moe-xor-ruter");
    FAIL() << "an unknown rule was explained";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("'moe-xor-router'"), std::string::npos)
        << error.what();
  }
}

TEST(Evaluation, ReportsAllViolationsInTableOrder) {
  TrainingConfig config;
  config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  config.cuda_graph_scope = {CudaGraphModule::moe, CudaGraphModule::moe_router,
                             CudaGraphModule::full_iteration};
  config.cpu_offloading = true;
  Evaluation evaluation;
  evaluate(Ruleset::mcore_0_20, {Layer::config}, config, PlatformSettings{}, evaluation);
  std::vector<std::string_view> ids;
  for (RuleIndex rule : evaluation.violations) ids.push_back(rule_id(rule));
  EXPECT_EQ(ids, (std::vector<std::string_view>{"full-iter-scope-impl", "cpu-offload-per-layer",
                                                "moe-xor-router", "moe-scope-needs-moe-model"}));
}

TEST(Evaluation, LayersNarrowTheRules) {
  TrainingConfig config;
  config.cuda_graph_impl = CudaGraphImpl::local;
  Evaluation evaluation;
  evaluate(Ruleset::seed, {Layer::config}, config, PlatformSettings{}, evaluation);
  EXPECT_TRUE(evaluation.legal());
  evaluate(Ruleset::seed, {Layer::bridge}, config, PlatformSettings{}, evaluation);
  EXPECT_FALSE(evaluation.legal());
}

TEST(Evaluation, AnUnknownVersionIsAWarning) {
  TrainingConfig config;
  config.cuda_graph_impl = CudaGraphImpl::full_iteration;
  config.cross_entropy_fusion_impl = CrossEntropyFusionImpl::te;
  PlatformSettings platform;
  Evaluation evaluation;
  evaluate(Ruleset::mcore_0_20, config, platform, evaluation);
  EXPECT_TRUE(evaluation.legal());
  bool warned = false;
  for (RuleIndex rule : evaluation.warnings) warned |= rule_id(rule) == "te-ce-full-iter-2.7";
  EXPECT_TRUE(warned);
  platform.transformer_engine = Version{2, 6, 0};
  evaluate(Ruleset::mcore_0_20, config, platform, evaluation);
  EXPECT_FALSE(evaluation.legal());
}

TEST(Evaluation, NormalisedLegalConfigurationsStayAsTheyAre) {
  Evaluation once;
  Evaluation twice;
  for (Ruleset ruleset : all_rulesets()) {
    for (std::uint32_t scope = 0; scope < 512; ++scope) {
      for (int impl = 0; impl < 4; ++impl) {
        TrainingConfig config;
        config.cuda_graph_impl = static_cast<CudaGraphImpl>(impl);
        config.cuda_graph_scope = CudaGraphScope::from_bits(scope);
        evaluate(ruleset, {Layer::config}, config, PlatformSettings{}, once);
        if (!once.legal()) continue;
        evaluate(ruleset, {Layer::config}, once.normalised, PlatformSettings{}, twice);
        ASSERT_EQ(once.normalised, twice.normalised)
            << ruleset_name(ruleset) << " impl " << impl << " scope " << scope;
        ASSERT_TRUE(twice.legal())
            << ruleset_name(ruleset) << " impl " << impl << " scope " << scope;
      }
    }
  }
}

TEST(Evaluation, NoneWithScopeFullIterationTurnsGraphsOnOnlyInMegatron) {
  TrainingConfig config;
  config.cuda_graph_scope = {CudaGraphModule::full_iteration};
  const std::map<Ruleset, CudaGraphImpl> expected{
      {Ruleset::seed, CudaGraphImpl::none},
      {Ruleset::cgconform, CudaGraphImpl::none},
      {Ruleset::mcore_0_17, CudaGraphImpl::none},
      {Ruleset::mcore_0_20, CudaGraphImpl::full_iteration},
      {Ruleset::megatron_lm_0_20, CudaGraphImpl::full_iteration},
      {Ruleset::bridge_0_6, CudaGraphImpl::none},
  };
  Evaluation evaluation;
  for (const auto& [ruleset, impl] : expected) {
    evaluate(ruleset, config, PlatformSettings{}, evaluation);
    EXPECT_EQ(evaluation.normalised.cuda_graph_impl, impl) << ruleset_name(ruleset);
  }
}

}  // namespace
}  // namespace cgconform::matrix
