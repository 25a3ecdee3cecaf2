#include "matrix/expansion.hpp"

#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "matrix/error.hpp"
#include "matrix/filter.hpp"
#include "matrix/matrix.hpp"

namespace cgconform::matrix {
namespace {

Expansion expand(std::string_view text) {
  return Expansion(read_matrix(text, "m.json"));
}

std::map<std::string, std::string> names_of(const Expansion& expansion) {
  std::map<std::string, std::string> names;
  for (std::uint64_t index = 0; index < expansion.size(); ++index) {
    const CellName name = expansion.name(index);
    EXPECT_TRUE(names.emplace(name.id, name.hash).second) << name.id;
  }
  return names;
}

void expect_kept(const std::map<std::string, std::string>& before,
                 const std::map<std::string, std::string>& after) {
  for (const auto& [id, hash] : before) {
    const auto found = after.find(id);
    ASSERT_NE(found, after.end()) << id;
    EXPECT_EQ(found->second, hash) << id;
  }
}

TEST(CellIds, AreWhatTheyWereReleasedAs) {
  const Expansion expansion = expand(R"({"name": "m",
    "axes": {"impl": ["none", "local"], "scope": ["layer", "attn+mlp"], "pp": [1, 2],
             "dropout": [0, 0.1], "num_layers": [4, 8]}})");
  EXPECT_EQ(expansion.name(0).id, "impl=none/scope=layer/dropout=0");
  EXPECT_EQ(expansion.name(0).hash, hash_text(hash_id("impl=none/scope=layer/dropout=0")));
  EXPECT_EQ(expansion.name(31).id, "impl=local/scope=attn+mlp/pp=2/num_layers=8");
  EXPECT_EQ(expansion.name(31).hash, "072a9297edd852f5");
  EXPECT_EQ(hash_text(hash_id("impl=none/scope=layer")), "9a21e2fddbdfece7");
}

TEST(CellIds, SurviveAFurtherValueAndAnotherOrder) {
  expect_kept(names_of(expand(R"({"name": "m", "axes": {"impl": ["none", "local"], "pp": [1, 2],
                                  "scope": ["attn", "layer"]}})")),
              names_of(expand(R"({"name": "m", "axes": {"scope": ["mlp", "layer", "attn"],
                                  "impl": ["transformer_engine", "none", "local"],
                                  "pp": [4, 1, 2]}})")));
}

TEST(CellIds, SurviveAFurtherAxisWhoseDefaultIsTheOldBehaviour) {
  expect_kept(names_of(expand(R"({"name": "m", "axes": {"impl": ["none", "local"]},
                                  "defaults": {"num_layers": 2}})")),
              names_of(expand(R"({"name": "m", "axes": {"impl": ["none", "local"],
                                  "pool": ["separate", "shared"], "num_layers": [2, 6],
                                  "zone": {"a": {}, "b": {"hidden_size": 32}}},
                                  "defaults": {"num_layers": 2, "zone": "a"}})")));
}

/// An expression over the axes below, as deep as it comes.
std::string random_expression(std::mt19937_64& random, int depth) {
  static constexpr std::array tests{
      "impl=local", "scope=layer,attn", "scope!=full_iteration", "vp=2",    "pp>1",
      "pp<=2",      "model=dense",      "seq_length=8",          "072a9297"};
  const auto part = [&] { return random_expression(random, depth - 1); };
  switch (depth == 0 ? 0 : random() % 4) {
    case 1:
      return fmt::format("!({})", part());
    case 2:
      return fmt::format("({} & {})", part(), part());
    case 3:
      return fmt::format("({} | {})", part(), part());
    default:
      return tests[random() % tests.size()];
  }
}

TEST(NextAdmitted, PassesOverWhatCannotBeSelectedAndOverNothingElse) {
  std::mt19937_64 random(7);
  std::uint64_t admitted = 0;
  for (int round = 0; round < 300; ++round) {
    const auto list = [&](std::uint64_t count) {
      std::vector<std::string> texts;
      for (std::uint64_t i = 0; i < count; ++i) texts.push_back(random_expression(random, 4));
      return nlohmann::json(texts).dump();
    };
    const Expansion expansion = expand(fmt::format(
        R"({{"name": "m", "include": {}, "exclude": {},
             "axes": {{"impl": ["none", "local"], "scope": ["layer", "attn", "full_iteration"],
                       "pp": [1, 2, 4], "vp": [1, 2], "model": ["dense", "moe_dropless"],
                       "seq_length": [8, 16]}}}})",
        list(random() % 3), list(random() % 3)));
    const Filter filter =
        Filter::compile(random_expression(random, 3), expansion.matrix().axes, "--filter");
    const Filter* asked = round % 2 == 0 ? &filter : nullptr;
    std::vector<std::uint64_t> expected;
    Coordinates at;
    for (std::uint64_t index = 0; index < expansion.size(); ++index) {
      expansion.coordinates(index, at);
      const bool selected = asked == nullptr || asked->selects(at);
      if (selected && expansion.admits(at)) expected.push_back(index);
    }
    std::vector<std::uint64_t> found;
    for (auto next = expansion.next_admitted(0, at, asked); next;
         next = expansion.next_admitted(*next + 1, at, asked)) {
      EXPECT_EQ(expansion.index_of(at), *next);
      found.push_back(*next);
    }
    ASSERT_EQ(found, expected) << expansion.matrix().source << " in round " << round;
    admitted += found.size();
  }
  EXPECT_GT(admitted, 1000U);
}

TEST(NextAdmitted, FindsFewCellsOfAProductTooLargeToWalk) {
  std::string values = "[2";
  for (int i = 3; i < 1000; ++i) values += fmt::format(", {}", i);
  values += "]";
  const Expansion expansion = expand(fmt::format(
      R"({{"name": "m", "include": ["num_layers=17 & seq_length=31 & microbatches=5,997"],
           "axes": {{"num_layers": {0}, "seq_length": {0}, "microbatches": {0}}}}})",
      values));
  Coordinates at;
  const auto first = expansion.next_admitted(0, at);
  ASSERT_TRUE(first.has_value());
  EXPECT_THAT(expansion.name(*first).id, testing::HasSubstr("microbatches=5"));
  const auto second = expansion.next_admitted(*first + 1, at);
  ASSERT_TRUE(second.has_value());
  EXPECT_THAT(expansion.name(*second).id, testing::HasSubstr("microbatches=997"));
  EXPECT_FALSE(expansion.next_admitted(*second + 1, at).has_value());
}

TEST(Expansion, FindsEveryCellAgainByItsIdAndItsCoordinates) {
  const Expansion expansion = expand(R"({"name": "m",
    "axes": {"impl": ["none", "local"], "scope": ["layer", "attn", "full_iteration"],
             "recompute": ["core_attn", "full-block:2"], "vp": [2, 4], "seq_length": [8, 16]}})");
  ASSERT_EQ(expansion.size(), 48U);
  std::set<std::string> hashes;
  Coordinates at;
  for (std::uint64_t index = 0; index < expansion.size(); ++index) {
    const CellName name = expansion.name(index);
    EXPECT_EQ(expansion.find(name.id), index) << name.id;
    expansion.coordinates(index, at);
    EXPECT_EQ(expansion.index_of(at), index);
    EXPECT_EQ(expansion.cell(index).index, index);
    hashes.insert(name.hash);
  }
  EXPECT_EQ(hashes.size(), 48U);
  EXPECT_EQ(expansion.find("impl=local"), std::nullopt);
  EXPECT_EQ(expansion.find("impl=local/scope=layer/pp=2"), std::nullopt);
  EXPECT_EQ(expansion.find("nonsense"), std::nullopt);
}

TEST(Expansion, ReachesAnyCellOfAHugeMatrixWithoutListingOthers) {
  std::string values = "1";
  for (int value = 2; value <= 1000; ++value) values += "," + std::to_string(value);
  std::string axes;
  for (const char* axis : {"pp", "tp", "dp", "ep", "microbatches", "steps"}) {
    axes += (axes.empty() ? "\"" : ", \"") + std::string(axis) + "\": [" + values + "]";
  }
  const Expansion expansion = expand("{\"name\": \"huge\", \"axes\": {" + axes + "}}");
  ASSERT_EQ(expansion.size(), 1'000'000'000'000'000'000U);
  const std::uint64_t index = 123'456'789'012'345'678U;
  EXPECT_EQ(expansion.find(expansion.name(index).id), index);
  EXPECT_EQ(expansion.cell(index).config.pipeline_model_parallel_size, 124);
  EXPECT_EQ(expansion.cell(index).shape.steps, 679);
}

TEST(Expansion, RefusesMoreCellsThanItCanCount) {
  std::string values = "1";
  for (int value = 2; value <= 1000; ++value) values += "," + std::to_string(value);
  std::string axes;
  for (const char* axis : {"pp", "tp", "dp", "ep", "microbatches", "steps", "vocab_size"}) {
    axes += (axes.empty() ? "\"" : ", \"") + std::string(axis) + "\": [" +
            (axis == std::string("vocab_size") ? values.substr(2) : values) + "]";
  }
  EXPECT_THROW(expand("{\"name\": \"huge\", \"axes\": {" + axes + "}}"), InputError);
}

TEST(Expansion, AdmitsWhatIsIncludedAndNotExcluded) {
  const Expansion expansion = expand(R"({"name": "m", "axes": {"impl": ["none", "local"],
    "scope": ["layer", "attn"], "pp": [1, 2]},
    "include": ["impl=local", "pp=1"], "exclude": ["scope=attn & pp=2"]})");
  std::set<std::string> admitted;
  Coordinates at;
  for (std::uint64_t index = 0; index < expansion.size(); ++index) {
    expansion.coordinates(index, at);
    if (expansion.admits(at)) admitted.insert(expansion.name(index).id);
  }
  EXPECT_EQ(admitted, (std::set<std::string>{"impl=none/scope=layer", "impl=none/scope=attn",
                                             "impl=local/scope=layer", "impl=local/scope=attn",
                                             "impl=local/scope=layer/pp=2"}));
}

TEST(BuiltinMatrices, SmokeKeepsItsIds) {
  const Expansion smoke(load_matrix("smoke"));
  for (const char* id : {"impl=none/scope=layer", "impl=local/scope=attn/pp=2",
                         "impl=local/scope=full_iteration/pool=separate/dtype=fp64/optimizer=sgd/"
                         "dropout=0/microbatches=3"}) {
    EXPECT_TRUE(smoke.find(id).has_value()) << id;
  }
}

TEST(BuiltinMatrices, FullIsTheProductOfItsAxes) {
  const Expansion full(load_matrix("full"));
  EXPECT_EQ(full.size(), 3U * 65 * 20 * 4 * 2 * 2 * 3 * 2 * 4);
  std::set<std::string> scopes;
  for (const Axis& axis : full.axes()) {
    if (axis.name != "scope") continue;
    for (const AxisValue& value : axis.values) scopes.insert(value.token);
  }
  EXPECT_EQ(scopes.size(), 65U);
}

}  // namespace
}  // namespace cgconform::matrix
