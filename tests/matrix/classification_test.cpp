#include "matrix/classification.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "matrix/cell_plan.hpp"
#include "matrix/equal_cells.hpp"
#include "matrix/training_config_json.hpp"

namespace cgconform::matrix {
namespace {

using testing::HasSubstr;

CellPlan plan_of(std::string_view text, std::string filter = {}) {
  return CellPlan(read_matrix(text, "m.json"), {std::move(filter), 0, TargetDevice::reference});
}

/// Status line of every selected cell, by id.
std::map<std::string, std::string> statuses(const CellPlan& plan) {
  std::map<std::string, std::string> lines;
  plan.for_each([&](const CellPlan::Entry& entry) {
    std::string line;
    switch (entry.classification.status) {
      case CellStatus::run:
        line = entry.classification.kind == CellKind::baseline ? "baseline" : "run";
        break;
      case CellStatus::refused:
        line = "refused";
        for (const RuleIndex rule : entry.classification.rules) {
          line += " " + std::string(rule_id(rule));
        }
        break;
      case CellStatus::skipped:
        line = plan.skip_reason(entry.classification);
        break;
    }
    EXPECT_TRUE(lines.emplace(plan.expansion().name(entry.index).id, line).second);
    return true;
  });
  return lines;
}

/// A text equal exactly where two cells make the same run.
std::string fingerprint(const Cell& normalised) {
  Cell cell = normalised;
  make_canonical(cell, TargetDevice::reference);
  const auto& platform = cell.platform;
  const auto& shape = cell.shape;
  return training_config_to_json(cell.config).dump() +
         nlohmann::json{platform.expandable_segments,
                        platform.nccl_graph_register ? int{*platform.nccl_graph_register} : -1,
                        static_cast<int>(platform.graph_pool),
                        static_cast<int>(cell.model_kind),
                        shape.vocab_size,
                        shape.ffn_hidden_size,
                        shape.steps,
                        shape.eval_interval,
                        shape.eval_iters,
                        shape.bucket_size,
                        static_cast<int>(shape.graphed_layers),
                        static_cast<int>(shape.optimizer)}
             .dump();
}

/// Compares the lazy search for duplicates with a table of all cells seen.
void expect_exact_duplicates(const CellPlan& plan) {
  std::map<std::string, std::uint64_t> runs;
  std::uint64_t duplicates = 0;
  plan.for_each([&](const CellPlan::Entry& entry) {
    const Classification& result = entry.classification;
    const bool same =
        result.skip == SkipReason::duplicate || result.skip == SkipReason::no_device_effect;
    if (result.status != CellStatus::run && !same) return true;
    const auto [first, inserted] = runs.emplace(fingerprint(entry.normalised), entry.index);
    const std::string id = plan.expansion().name(entry.index).id;
    EXPECT_EQ(inserted, result.status == CellStatus::run) << id;
    if (same) {
      ++duplicates;
      EXPECT_EQ(result.same_as, first->second) << id;
      EXPECT_LT(result.same_as, entry.index) << id;
    }
    return true;
  });
  EXPECT_GT(duplicates, 0U);
}

constexpr std::string_view legal_defaults = R"("use_te_rng_tracker": true, "te_rng_tracker": true,
  "check_for_nan_in_loss": false, "check_for_nan_in_grad": false,
  "check_for_nan_in_loss_and_grad": false, "num_layers": 4)";

std::string matrix_text(std::string_view axes, std::string_view more = "") {
  return std::string(R"({"name": "m", "axes": {)") + std::string(axes) + R"(}, "defaults": {)" +
         std::string(legal_defaults) + "}" + std::string(more) + "}";
}

TEST(Classification, RunsLegalCellsAndCountsBaselinesApart) {
  const auto lines =
      statuses(plan_of(matrix_text(R"("impl": ["none", "local"], "scope": ["layer"])")));
  EXPECT_EQ(lines.at("impl=none/scope=layer"), "baseline");
  EXPECT_EQ(lines.at("impl=local/scope=layer"), "run");
}

TEST(Classification, ListsEveryViolatedRuleOfARefusedCell) {
  const auto lines = statuses(
      plan_of(matrix_text(R"("impl": ["local"], "scope": ["attn+full_iteration", "moe+moe_router"],
                     "model": ["dense"])")));
  EXPECT_THAT(lines.at("impl=local/scope=attn+full_iteration"), HasSubstr("full-iter-no-modules"));
  EXPECT_THAT(lines.at("impl=local/scope=moe+moe_router"), HasSubstr("moe-xor-router"));
}

TEST(Classification, SkipsWhatIsEqualAfterNormalisation) {
  const auto lines = statuses(plan_of(matrix_text(
      R"("impl": ["none", "local"], "scope": ["layer", "attn"], "pool": ["shared", "separate"])")));
  EXPECT_EQ(lines.at("impl=none/scope=attn/pool=separate"), "duplicate of impl=none/scope=layer");
  EXPECT_EQ(lines.at("impl=none/scope=layer/pool=separate"), "duplicate of impl=none/scope=layer");
  EXPECT_EQ(lines.at("impl=local/scope=attn"), "run");
  EXPECT_EQ(lines.at("impl=local/scope=attn/pool=separate"), "run");
}

TEST(Classification, NamesTheFirstSelectedCellWhereTheCanonicalOneIsLeftOut) {
  const std::string text = matrix_text(R"("impl": ["none"], "scope": ["layer", "attn", "mlp"])");
  const auto lines = statuses(plan_of(text, "scope!=layer"));
  EXPECT_EQ(lines.at("impl=none/scope=attn"), "baseline");
  EXPECT_EQ(lines.at("impl=none/scope=mlp"), "duplicate of impl=none/scope=attn");
}

TEST(Classification, SkipsSettingsWithoutEffectOnTheDevice) {
  const auto lines = statuses(
      plan_of(matrix_text(R"("impl": ["local"], "scope": ["layer"], "ncclreg": ["unset", 0, 1])")));
  EXPECT_EQ(lines.at("impl=local/scope=layer"), "run");
  EXPECT_EQ(lines.at("impl=local/scope=layer/ncclreg=1"),
            "no effect on device reference: same as impl=local/scope=layer");
}

TEST(Classification, SkipsScopesWithoutALayerOfTheModel) {
  const auto lines = statuses(
      plan_of(matrix_text(R"("impl": ["local"], "scope": ["attn", "mamba", "attn+mamba"])")));
  EXPECT_EQ(lines.at("impl=local/scope=mamba"),
            "captures nothing: the model has no layer in this scope");
  EXPECT_EQ(lines.at("impl=local/scope=attn+mamba"), "duplicate of impl=local/scope=attn");
}

TEST(Classification, SkipsWhatIsNotBuiltYet) {
  const auto lines = statuses(plan_of(matrix_text(R"("impl": ["none"], "fp4": [false, true])")));
  EXPECT_EQ(lines.at("impl=none/scope=layer/fp4=true"), "not built yet: fp4");
}

TEST(Classification, SkipsCellsOverTheRankLimit) {
  const auto lines = statuses(
      plan_of(matrix_text(R"("impl": ["none"], "pp": [1, 2])", R"(, "limits": {"max_ranks": 1})")));
  EXPECT_EQ(lines.at("impl=none/scope=layer/pp=2"),
            "over the matrix's rank limit: needs 2, allows 1");
}

TEST(Classification, SkipsAtSchedulingWhatNeedsMoreRanksThanThereAre) {
  const CellPlan plan = plan_of(matrix_text(R"("impl": ["local"], "pp": [2])"));
  const Classification few = classify_ranks(plan.expansion().cell(0), 1);
  EXPECT_EQ(few.skip, SkipReason::too_few_ranks);
  EXPECT_EQ(plan.skip_reason(few), "too few ranks: needs 2, have 1");
  EXPECT_EQ(classify_ranks(plan.expansion().cell(0), 2).status, CellStatus::run);
}

TEST(Classification, AddsUp) {
  const CellPlan plan(load_matrix("full"),
                      {"pp<=2 & alloc=plain & pool=shared", 0, TargetDevice::reference});
  PlanTotals totals = plan.totals();
  EXPECT_EQ(totals.total, 3U * 65 * 20 * 2 * 2 * 3 * 4);
  EXPECT_EQ(totals.total, totals.run + totals.refused + totals.skipped);
  EXPECT_GT(totals.run, 0U);
  EXPECT_GT(totals.refused, 0U);
  std::uint64_t skipped = 0;
  for (const auto& [reason, count] : totals.skipped_by_reason) skipped += count;
  EXPECT_EQ(skipped, totals.skipped);
  EXPECT_THAT(totals_line(totals), HasSubstr("total 187200 = run "));
}

TEST(Duplicates, AreExactOverTheBuiltPartOfFull) {
  expect_exact_duplicates(
      CellPlan(load_matrix("full"), {"model=dense & pp<=2", 0, TargetDevice::reference}));
}

TEST(Duplicates, AreExactWhateverTheOrderAndTheSelection) {
  expect_exact_duplicates(plan_of(
      matrix_text(R"("impl": ["local", "none"], "scope": ["mlp+mamba", "attn", "mlp", "layer",
                     "attn+mlp+mamba", "attn+mlp"], "pool": ["separate", "shared"],
                     "warmup": [2, 1], "eval_interval": [0, 2], "eval_iters": [2, 1],
                     "ncclreg": [1, "unset"], "moe_layer_freq": [2, 1])",
                  R"(, "exclude": ["scope=layer & pool=separate", "impl=none & warmup=2"])")));
}

TEST(Duplicates, IncludeRecomputeOfWhatTheModelHasNot) {
  const auto lines = statuses(plan_of(matrix_text(
      R"("impl": ["none"], "recompute": ["none", "moe_act", "mlp", "mlp+moe"], "model": ["dense"])")));
  EXPECT_EQ(lines.at("impl=none/scope=layer/recompute=moe_act"),
            "duplicate of impl=none/scope=layer");
  EXPECT_EQ(lines.at("impl=none/scope=layer/recompute=mlp+moe"),
            "duplicate of impl=none/scope=layer/recompute=mlp");
}

TEST(Duplicates, MeetTheCurrentSpellingOfADeprecatedOne) {
  const auto lines = statuses(
      plan_of(matrix_text(R"("impl": ["none", "local"], "enable_cuda_graph": [false, true])")));
  EXPECT_EQ(lines.at("impl=none/scope=layer/enable_cuda_graph=true"),
            "duplicate of impl=local/scope=layer");
  EXPECT_EQ(lines.at("impl=local/scope=layer"), "run");
}

TEST(FeatureTable, NamesEachFeatureOnce) {
  std::set<std::string_view> names;
  for (const Feature& feature : feature_table()) EXPECT_TRUE(names.insert(feature.name).second);
}

TEST(FeatureTable, LeavesThePlainCellBuilt) {
  EXPECT_EQ(missing_feature(Cell{}, TargetDevice::reference), nullptr);
}

TEST(Classification, SkipsRegistrationOfBuffersWhereRanksShareAGpu) {
  const char* text = R"({"name": "m", "axes": {"impl": ["transformer_engine"], "pp": [1, 2],
                         "ncclreg": ["0", "1"]},
                         "defaults": {"te_rng_tracker": true, "use_te_rng_tracker": true}})";
  PlanOptions options;
  options.device = TargetDevice::cuda;
  const auto skipped = [&](bool gpus_shared) {
    options.gpus_shared = gpus_shared;
    std::vector<std::string> ids;
    const CellPlan plan(read_matrix(text, "m.json"), options);
    for (const auto& [id, line] : statuses(plan)) {
      if (line.starts_with("needs a GPU for each rank")) ids.push_back(id);
    }
    return ids;
  };
  EXPECT_TRUE(skipped(false).empty());
  const std::vector<std::string> ids = skipped(true);
  ASSERT_EQ(ids.size(), 1U);
  EXPECT_THAT(ids.front(), HasSubstr("pp=2"));
}

}  // namespace
}  // namespace cgconform::matrix
