#include "matrix/filter.hpp"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "matrix/expansion.hpp"
#include "matrix/matrix.hpp"

namespace cgconform::matrix {
namespace {

using testing::HasSubstr;

const Expansion& expansion() {
  static const Expansion result(read_matrix(R"({
    "name": "m",
    "axes": {"impl": ["none", "local", "transformer_engine"],
             "scope": ["layer", "attn", "attn+mlp", "moe_router+moe_preprocess", "full_iteration"],
             "recompute": ["none", "full-uniform", "full-block:2", "core_attn"],
             "pp": [1, 2, 4]}})",
                                            "m.json"));
  return result;
}

std::set<std::uint64_t> selected(std::string_view text) {
  const Filter filter = Filter::compile(text, expansion().matrix().axes, "--filter");
  std::set<std::uint64_t> cells;
  Coordinates at;
  for (std::uint64_t index = 0; index < expansion().size(); ++index) {
    expansion().coordinates(index, at);
    if (filter.selects(at)) cells.insert(index);
  }
  return cells;
}

template <typename Predicate>
std::set<std::uint64_t> cells_where(Predicate predicate) {
  std::set<std::uint64_t> cells;
  for (std::uint64_t index = 0; index < expansion().size(); ++index) {
    if (predicate(expansion().cell(index).config)) cells.insert(index);
  }
  return cells;
}

std::string message_of(std::string_view text) {
  try {
    Filter::compile(text, expansion().matrix().axes, "--filter");
  } catch (const InputError& error) {
    return error.what();
  }
  return "(accepted)";
}

bool is_full(const TrainingConfig& config) {
  return config.recompute_granularity == RecomputeGranularity::full;
}

TEST(AxisFilter, SelectsByConjunctionDisjunctionAndNegation) {
  EXPECT_EQ(selected("impl=local & pp>1 & !recompute=full"),
            cells_where([](const TrainingConfig& config) {
              return config.cuda_graph_impl == CudaGraphImpl::local &&
                     config.pipeline_model_parallel_size > 1 && !is_full(config);
            }));
  EXPECT_EQ(selected("impl=none | pp=4 & scope=attn"),
            cells_where([](const TrainingConfig& config) {
              return config.cuda_graph_impl == CudaGraphImpl::none ||
                     (config.pipeline_model_parallel_size == 4 &&
                      config.cuda_graph_scope == CudaGraphScope{CudaGraphModule::attn});
            }));
  EXPECT_EQ(selected("!(impl=none | pp=4)"), selected("impl!=none && pp!=4"));
  EXPECT_EQ(selected("!!impl=none"), selected("impl=none"));
}

TEST(AxisFilter, ComparesOrderedAxes) {
  EXPECT_EQ(selected("pp<2"), selected("pp=1"));
  EXPECT_EQ(selected("pp<=2"), selected("pp=1,2"));
  EXPECT_EQ(selected("pp>=2"), selected("pp!=1"));
  EXPECT_EQ(selected("pp>2"), selected("pp=4"));
}

TEST(AxisFilter, MatchesGlobsVariantsPartsAndOtherSpellings) {
  EXPECT_EQ(selected("scope=*attn*"), selected("scope=attn,attn+mlp"));
  EXPECT_EQ(selected("scope has attn"), selected("scope=attn,attn+mlp"));
  EXPECT_EQ(selected("scope has moe_router"), selected("scope=moe_router+moe_preprocess"));
  EXPECT_EQ(selected("scope=mlp+attn"), selected("scope=attn+mlp"));
  EXPECT_EQ(selected("recompute=full"), selected("recompute=full-uniform,full-block:2"));
  EXPECT_EQ(selected("recompute=full-block"), selected("recompute=full-block:2"));
  EXPECT_EQ(selected("implementation=te"), selected("impl=transformer_engine"));
  EXPECT_EQ(selected("pp=?"), cells_where([](const TrainingConfig&) { return true; }));
}

TEST(AxisFilter, KnowsAxesThatTheMatrixDoesNotVary) {
  EXPECT_EQ(selected("vp=1").size(), expansion().size());
  EXPECT_TRUE(selected("vp=2").empty());
  EXPECT_TRUE(selected("vp>1").empty());
}

TEST(AxisFilter, SelectsOneCellByItsId) {
  for (std::uint64_t index = 0; index < expansion().size(); ++index) {
    EXPECT_EQ(selected(expansion().name(index).id), std::set<std::uint64_t>{index});
  }
}

TEST(AxisFilter, SelectsOneCellByItsHash) {
  const std::string hash = expansion().name(7).hash;
  EXPECT_EQ(selected(hash), std::set<std::uint64_t>{7});
  EXPECT_EQ(selected(hash.substr(0, 8)), std::set<std::uint64_t>{7});
  EXPECT_EQ(selected(hash + " | " + expansion().name(9).id), (std::set<std::uint64_t>{7, 9}));
}

TEST(AxisFilter, KeepsTheOutermostConjuncts) {
  const auto compile = [](std::string_view text) {
    return Filter::compile(text, expansion().matrix().axes, "--filter");
  };
  const Filter filter = compile("impl=local & (pp=1 | pp=2) & !scope=attn");
  ASSERT_EQ(filter.conjuncts().size(), 3U);
  EXPECT_EQ(filter.conjuncts()[1].text(), "(pp=1 | pp=2)");
  EXPECT_TRUE(compile("impl=local & pp=1 | pp=2").conjuncts().empty());
}

TEST(AxisFilter, RefusesUnknownAxisWithNearestName) {
  EXPECT_EQ(message_of("pp=1 & imlp=local"),
            "--filter, column 8: unknown axis 'imlp'; the nearest is 'impl'\n"
            "  pp=1 & imlp=local\n"
            "         ^");
}

TEST(AxisFilter, RefusesUnknownValueWithNearestName) {
  EXPECT_THAT(message_of("impl=lcoal"),
              HasSubstr("column 6: axis 'impl' has no value 'lcoal'; the nearest is 'local'"));
  EXPECT_THAT(message_of("scope has atn"), HasSubstr("the nearest is 'attn'"));
  EXPECT_THAT(message_of("impl=none/scope=atn"), HasSubstr("no cell with scope=atn"));
}

TEST(AxisFilter, RefusesWhatItCannotRead) {
  EXPECT_THAT(message_of(""), HasSubstr("the expression is empty"));
  EXPECT_THAT(message_of("impl"), HasSubstr("expected =, !=, <, <=, >, >= or 'has' after 'impl'"));
  EXPECT_THAT(message_of("impl="), HasSubstr("expected a value of axis 'impl'"));
  EXPECT_THAT(message_of("impl=none &"), HasSubstr("before the end"));
  EXPECT_THAT(message_of("(impl=none"), HasSubstr("column 1: '(' is never closed"));
  EXPECT_THAT(message_of("impl=none)"), HasSubstr("column 10: ')' closes nothing"));
  EXPECT_THAT(message_of("impl=none pp=1"), HasSubstr("expected '&', '|' or the end"));
  EXPECT_THAT(message_of("impl<none"), HasSubstr("axis 'impl' has no order"));
  EXPECT_THAT(message_of("pp<two"), HasSubstr("'two' is no number"));
  EXPECT_THAT(message_of(std::string(1000, '(')), HasSubstr("nested too deeply"));
  EXPECT_THAT(message_of(std::string(1000, '!')), HasSubstr("nested too deeply"));
}

TEST(Glob, MatchesTheWholeText) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("a*c", "abcbc"));
  EXPECT_FALSE(glob_match("a*c", "abcb"));
  EXPECT_TRUE(glob_match("?b*", "ab"));
  EXPECT_FALSE(glob_match("", "a"));
}

}  // namespace
}  // namespace cgconform::matrix
