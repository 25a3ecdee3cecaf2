#include "matrix/cell_plan.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "matrix/value_tuples.hpp"

namespace cgconform::matrix {
namespace {

using testing::HasSubstr;

constexpr std::string_view head = R"({"name": "m",
  "axes": {"impl": ["none", "local", "transformer_engine"],
           "scope": ["layer", "attn", "mlp", "attn+mlp", "full_iteration", "attn+full_iteration"],
           "pp": [1, 2, 4], "pool": ["shared", "separate"], "dtype": ["fp32", "fp64"],
           "dropout": [0, 0.1], "optimizer": ["sgd", "adam"], "alloc": ["plain", "expandable"]},
  "defaults": {"use_te_rng_tracker": true, "te_rng_tracker": true, "check_for_nan_in_loss": false,
               "check_for_nan_in_grad": false, "check_for_nan_in_loss_and_grad": false})";

CellPlan plan_of(std::string_view tail, std::string filter = {}, std::uint64_t seed = 0) {
  return CellPlan(read_matrix(std::string(head) + std::string(tail) + "}", "m.json"),
                  {std::move(filter), seed, TargetDevice::reference});
}

std::vector<std::uint64_t> indexes(const CellPlan& plan) {
  std::vector<std::uint64_t> list;
  plan.for_each([&](const CellPlan::Entry& entry) {
    list.push_back(entry.index);
    return true;
  });
  return list;
}

std::string message_of(std::string_view tail, std::string filter) {
  try {
    plan_of(tail, std::move(filter));
  } catch (const InputError& error) {
    return error.what();
  }
  return "(accepted)";
}

/// The tuples of so many values that the usable cells of a plan hold.
std::set<std::uint64_t> tuples_of(const CellPlan& plan, bool running_only, std::size_t width = 2) {
  const TupleNumbers numbers(plan.expansion(), width);
  std::set<std::uint64_t> tuples;
  plan.for_each([&](const CellPlan::Entry& entry) {
    const Classification& result = entry.classification;
    const bool same =
        result.skip == SkipReason::duplicate || result.skip == SkipReason::no_device_effect;
    if (result.status == CellStatus::refused || same) return true;
    if (running_only && result.status != CellStatus::run) return true;
    numbers.for_each(entry.coordinates, [&](std::uint64_t tuple) { tuples.insert(tuple); });
    return true;
  });
  return tuples;
}

std::string t_wise(std::size_t width) {
  return R"(, "strategy": "t-wise:)" + std::to_string(width) + '"';
}

TEST(CellPlan, WalksByIndexAndStopsWhenTold) {
  const CellPlan plan = plan_of("");
  const std::vector<std::uint64_t> all = indexes(plan);
  EXPECT_EQ(all.size(), plan.expansion().size());
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  int visits = 0;
  plan.for_each([&](const CellPlan::Entry&) { return ++visits < 3; });
  EXPECT_EQ(visits, 3);
}

TEST(CellPlan, SelectsASubsetByFilter) {
  const std::vector<std::uint64_t> local = indexes(plan_of("", "impl=local"));
  const std::vector<std::uint64_t> rest = indexes(plan_of("", "!impl=local"));
  EXPECT_EQ(local.size() + rest.size(), indexes(plan_of("")).size());
}

TEST(CellPlan, SaysWhichPartOfAFilterExcludesEverything) {
  EXPECT_THAT(message_of("", "impl=local & pp>8 & dtype=fp32"),
              HasSubstr("'impl=local & pp>8 & dtype=fp32' selects no cell of matrix m: 'pp>8' "
                        "excludes every cell"));
  EXPECT_THAT(message_of("", "vp=2"), HasSubstr("no cell passes it"));
  EXPECT_THAT(message_of("", "pp=1 & pp=2"), HasSubstr("no cell passes all of its parts together"));
}

TEST(CellPlan, RefusesAMatrixThatExcludesEverything) {
  EXPECT_THAT(message_of(R"(, "include": ["pp=1"], "exclude": ["pp=1"])", ""),
              HasSubstr("m.json: include and exclude select none of the"));
  EXPECT_THAT(message_of(R"(, "include": ["scope=attn+full_iteration & impl=local"],
                             "strategy": "pairwise")",
                         ""),
              HasSubstr("every cell is refused or excluded"));
}

TEST(Pairwise, CoversEveryPairThatIsPossible) {
  const CellPlan everything = plan_of("");
  const CellPlan chosen = plan_of(R"(, "strategy": "pairwise")");
  EXPECT_EQ(tuples_of(chosen, true), tuples_of(everything, true));
  EXPECT_EQ(tuples_of(chosen, false), tuples_of(everything, false));
  EXPECT_LT(indexes(chosen).size(), indexes(everything).size() / 20);
}

class TWise : public testing::TestWithParam<std::size_t> {};

TEST_P(TWise, CoversEveryTupleThatIsPossible) {
  const std::size_t width = GetParam();
  const CellPlan everything = plan_of("");
  const CellPlan chosen = plan_of(t_wise(width));
  EXPECT_EQ(tuples_of(chosen, true, width), tuples_of(everything, true, width));
  EXPECT_EQ(tuples_of(chosen, false, width), tuples_of(everything, false, width));
  EXPECT_EQ(chosen.totals().refused, 0U);
}

INSTANTIATE_TEST_SUITE_P(Widths, TWise, testing::Values(2, 3, 4, 5, 6));

TEST(TWise, GrowsWithItsWidthAndStaysFarBelowEverything) {
  const std::size_t everything = indexes(plan_of("")).size();
  std::size_t before = 0;
  for (const std::size_t width : {2U, 3U, 4U}) {
    const std::size_t cells = indexes(plan_of(t_wise(width))).size();
    EXPECT_GT(cells, before);
    // At least as many as the largest axes have tuples; greedy choices need a few times that.
    EXPECT_LT(cells, everything / 3) << width;
    before = cells;
  }
  EXPECT_EQ(indexes(plan_of(t_wise(2))), indexes(plan_of(R"(, "strategy": "pairwise")")));
}

TEST(TWise, RefusesMoreTuplesThanItKeeps) {
  std::string values = "1";
  for (int value = 2; value <= 64; ++value) values += "," + std::to_string(value);
  const std::string axes = R"({"name": "m", "axes": {"steps": [)" + values + R"(], "vocab": [)" +
                           values + R"(], "ffn": [)" + values + R"(], "microbatches": [)" + values +
                           R"(]}, "strategy": "t-wise:4"})";
  EXPECT_THROW(CellPlan(read_matrix(axes, "m.json"), {}), InputError);
}

TEST(Pairwise, ChoosesNoRefusedCellAndNoDuplicate) {
  const PlanTotals totals = plan_of(R"(, "strategy": "pairwise")").totals();
  EXPECT_EQ(totals.refused, 0U);
  EXPECT_EQ(totals.skipped_by_reason.count("duplicate"), 0U);
  EXPECT_EQ(totals.total, totals.run + totals.skipped);
}

TEST(Pairwise, CoversMostWithItsFirstCells) {
  const CellPlan plan = plan_of(R"(, "strategy": "pairwise")");
  const TupleNumbers numbers(plan.expansion(), 2);
  std::set<std::uint64_t> covered;
  std::vector<std::size_t> gains;
  plan.for_each([&](const CellPlan::Entry& entry) {
    const std::size_t before = covered.size();
    numbers.for_each(entry.coordinates, [&](std::uint64_t pair) { covered.insert(pair); });
    const std::size_t gain = covered.size() - before;
    EXPECT_GT(gain, 0U);
    if (entry.classification.status == CellStatus::run) gains.push_back(gain);
    return true;
  });
  EXPECT_TRUE(std::is_sorted(gains.rbegin(), gains.rend()));
}

TEST(Pairwise, IsRepeatedByItsSeedAndFiltered) {
  const auto chosen = [](std::uint64_t seed, std::string filter = {}) {
    return indexes(plan_of(R"(, "strategy": "pairwise")", std::move(filter), seed));
  };
  EXPECT_EQ(chosen(1), chosen(1));
  EXPECT_NE(chosen(1), chosen(2));
  const std::vector<std::uint64_t> all = chosen(1);
  for (const std::uint64_t index : chosen(1, "impl=local")) {
    EXPECT_NE(std::find(all.begin(), all.end(), index), all.end());
  }
}

TEST(Pairwise, TakesEveryUsableCellOfOneAxis) {
  const CellPlan plan(read_matrix(R"({"name": "m", "axes": {"dtype": ["fp32", "fp64"]},
                                      "strategy": "pairwise"})",
                                  "m.json"),
                      {});
  EXPECT_EQ(indexes(plan), (std::vector<std::uint64_t>{0, 1}));
}

}  // namespace
}  // namespace cgconform::matrix
