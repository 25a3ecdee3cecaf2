#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/cell_order.hpp"
#include "matrix/cell_plan.hpp"
#include "matrix/error.hpp"
#include "matrix/value_tuples.hpp"

namespace cgconform::matrix {
namespace {

constexpr std::string_view text = R"({"name": "m",
  "axes": {"impl": ["none", "local", "transformer_engine"],
           "scope": ["layer", "attn", "mlp", "attn+mlp", "full_iteration"],
           "pp": [1, 2], "pool": ["shared", "separate"], "dtype": ["fp32", "fp64"],
           "dropout": [0, 0.1], "optimizer": ["sgd", "adam"]},
  "defaults": {"use_te_rng_tracker": true, "te_rng_tracker": true, "check_for_nan_in_loss": false,
               "check_for_nan_in_grad": false, "check_for_nan_in_loss_and_grad": false})";

struct Selected {
  std::vector<std::uint64_t> cells;
  std::vector<std::uint64_t> running;
};

Selected select(const PlanOptions& options, std::uint64_t round = 1,
                const std::string& strategy = "exhaustive") {
  const CellPlan plan(
      read_matrix(std::string(text) + R"(, "strategy": ")" + strategy + "\"}", "m.json"), options);
  Selected selected;
  plan.for_each(
      [&](const CellPlan::Entry& entry) {
        selected.cells.push_back(entry.index);
        if (entry.classification.status == CellStatus::run) {
          selected.running.push_back(entry.index);
        }
        return true;
      },
      round);
  return selected;
}

std::set<std::uint64_t> as_set(const std::vector<std::uint64_t>& list) {
  return {list.begin(), list.end()};
}

PlanOptions options_of(std::string filter, Shard shard = {}, bool shuffle = false,
                       bool coverage_first = false) {
  PlanOptions options;
  options.filter = std::move(filter);
  options.seed = 7;
  options.shard = shard;
  options.shuffle = shuffle;
  options.coverage_first = coverage_first;
  return options;
}

TEST(ShuffledOrder, IsAPermutationOfAnyCount) {
  for (const std::uint64_t count : {1U, 2U, 3U, 5U, 64U, 65U, 1000U}) {
    const ShuffledOrder order(count, 3);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < count; ++i) seen.insert(order[i]);
    EXPECT_EQ(seen.size(), count);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

TEST(ShuffledOrder, ReachesFarIntoAHugeCount) {
  const std::uint64_t count = 1'000'000'000'000'000'000U;
  const ShuffledOrder order(count, 3);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 100; ++i) seen.insert(order[i] / (count / 4));
  EXPECT_EQ(seen.size(), 4U);
}

TEST(RoundSeed, IsTheSeedItselfFirstAndAnotherInEachRound) {
  EXPECT_EQ(round_seed(42, 1), 42U);
  std::set<std::uint64_t> seeds;
  for (std::uint64_t round = 1; round <= 100; ++round) seeds.insert(round_seed(42, round));
  EXPECT_EQ(seeds.size(), 100U);
}

/// What is combined with a shard.
struct Combination {
  std::string name;
  std::string filter;
  std::string strategy;
  bool shuffle = false;
  bool coverage_first = false;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's own name
void PrintTo(const Combination& row, std::ostream* out) {
  *out << row.name;
}

class ShardTest : public testing::TestWithParam<Combination> {};

TEST_P(ShardTest, PartitionsTheList) {
  const Combination& row = GetParam();
  const auto selected = [&](Shard shard) {
    return select(options_of(row.filter, shard, row.shuffle, row.coverage_first), 1, row.strategy);
  };
  const Selected all = selected({});
  for (const std::uint32_t count : {1U, 2U, 3U, 7U}) {
    std::set<std::uint64_t> seen;
    std::size_t cells = 0;
    for (std::uint32_t index = 1; index <= count; ++index) {
      const Selected part = selected({index, count});
      cells += part.cells.size();
      seen.merge(as_set(part.cells));
      if (!row.coverage_first && !row.shuffle) {
        EXPECT_TRUE(row.strategy != "exhaustive" ||
                    std::is_sorted(part.cells.begin(), part.cells.end()));
      }
    }
    EXPECT_EQ(seen, as_set(all.cells));
    EXPECT_EQ(cells, all.cells.size()) << "a cell stands in two shards";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Combinations, ShardTest,
    testing::Values(Combination{"Everything", "", "exhaustive"},
                    Combination{"Filtered", "impl=local & pp=1", "exhaustive"},
                    Combination{"Pairwise", "", "pairwise"},
                    Combination{"TWiseFiltered", "impl!=none", "t-wise:3"},
                    Combination{"Shuffled", "", "exhaustive", true},
                    Combination{"CoverageFirst", "", "exhaustive", false, true},
                    Combination{"AllOfIt", "impl=local", "t-wise:3", true, true}),
    [](const auto& test) { return test.param.name; });

TEST(Shard, OfACellDoesNotChangeWithTheFilter) {
  const auto all = as_set(select(options_of("", {2, 3})).cells);
  for (const std::uint64_t index : select(options_of("impl=local & scope=attn", {2, 3})).cells) {
    EXPECT_TRUE(all.contains(index));
  }
}

TEST(Shard, TakesAboutItsPartOfTheCells) {
  const std::size_t all = select(options_of("")).cells.size();
  for (std::uint32_t index = 1; index <= 4; ++index) {
    const std::size_t part = select(options_of("", {index, 4})).cells.size();
    EXPECT_GT(part, all / 6);
    EXPECT_LT(part, all / 3);
  }
}

TEST(Shuffle, KeepsTheCellsAndIsRepeatedByItsSeed) {
  const Selected plain = select(options_of(""));
  const Selected shuffled = select(options_of("", {}, true));
  EXPECT_NE(shuffled.cells, plain.cells);
  EXPECT_EQ(as_set(shuffled.cells), as_set(plain.cells));
  EXPECT_EQ(as_set(shuffled.running), as_set(plain.running));
  EXPECT_EQ(shuffled.cells, select(options_of("", {}, true)).cells);
  PlanOptions other = options_of("", {}, true);
  other.seed = 8;
  EXPECT_NE(select(other).cells, shuffled.cells);
}

TEST(Shuffle, DealsTheCellsAnewInEachRound) {
  const Selected first = select(options_of("", {}, true), 1);
  const Selected second = select(options_of("", {}, true), 2);
  EXPECT_NE(first.cells, second.cells);
  EXPECT_EQ(as_set(first.cells), as_set(second.cells));
}

/// How many pairs of values the first cells of a list hold.
std::vector<std::size_t> pairs_held(const std::vector<std::uint64_t>& cells) {
  const Expansion expansion(read_matrix(std::string(text) + "}", "m.json"));
  const TupleNumbers pairs(expansion, 2);
  std::set<std::uint64_t> held;
  std::vector<std::size_t> counts;
  Coordinates at;
  for (const std::uint64_t index : cells) {
    expansion.coordinates(index, at);
    pairs.for_each(at, [&](std::uint64_t pair) { held.insert(pair); });
    counts.push_back(held.size());
  }
  return counts;
}

TEST(CoverageFirst, HoldsMorePairsThanTheListInAnyPrefix) {
  const Selected plain = select(options_of(""));
  for (const bool shuffle : {false, true}) {
    const Selected ordered = select(options_of("", {}, shuffle, true));
    EXPECT_EQ(as_set(ordered.cells), as_set(plain.cells));
    ASSERT_EQ(ordered.running.size(), plain.running.size());
    const auto by_coverage = pairs_held(ordered.running);
    const auto by_index = pairs_held(plain.running);
    for (std::size_t i = 1; i + 1 < by_coverage.size() && by_coverage[i] < by_index.back(); ++i) {
      EXPECT_GE(by_coverage[i], by_index[i]) << i;
    }
    // Each cell adds as much as any can: gains fall, and all pairs are held early.
    for (std::size_t i = 2; i < by_coverage.size(); ++i) {
      EXPECT_LE(by_coverage[i] - by_coverage[i - 1], by_coverage[i - 1] - by_coverage[i - 2]);
    }
    const auto complete = std::find(by_coverage.begin(), by_coverage.end(), by_index.back());
    EXPECT_LT(complete - by_coverage.begin(), std::ssize(by_coverage) / 8);
  }
}

TEST(CoverageFirst, PutsCellsThatRunBeforeThoseThatDoNot) {
  const Selected ordered = select(options_of("", {}, false, true));
  EXPECT_EQ(ordered.cells.front(), ordered.running.front());
  EXPECT_EQ(ordered.cells[10], ordered.running[10]);
}

TEST(ChosenIds, AreTakenWhateverTheStrategy) {
  PlanOptions options = options_of("");
  options.ids = {"impl=local/scope=attn/pp=2", "impl=none/scope=layer"};
  EXPECT_EQ(select(options, 1, "pairwise").cells.size(), 2U);
  EXPECT_EQ(select(options, 1, "exhaustive").running.size(), 2U);
  options.ids = {"impl=local/scope=nowhere"};
  EXPECT_THROW(select(options), InputError);
}

TEST(EmptySelection, IsAnErrorUnlessAllowed) {
  PlanOptions options = options_of("impl=none & impl=local");
  EXPECT_THROW(select(options), InputError);
  options.allow_empty = true;
  EXPECT_TRUE(select(options).cells.empty());
}

TEST(EmptySelection, OfOneShardIsNone) {
  const PlanOptions options = options_of(
      "impl=none & scope=layer & pp=1 & pool=shared & dtype=fp32 "
      "& dropout=0 & optimizer=sgd",
      {1, 1});
  std::size_t cells = 0;
  for (std::uint32_t index = 1; index <= 5; ++index) {
    PlanOptions part = options;
    part.shard = {index, 5};
    cells += select(part).cells.size();
  }
  EXPECT_EQ(cells, select(options).cells.size());
}

}  // namespace
}  // namespace cgconform::matrix
