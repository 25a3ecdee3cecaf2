#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "matrix/expansion.hpp"
#include "matrix/matrix.hpp"

namespace cgconform::matrix {
namespace {

using testing::HasSubstr;

std::string message_of(std::string_view text) {
  try {
    read_matrix(text, "my.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(MatrixFile, ReadsAxesDefaultsAndStrategy) {
  const Matrix matrix = read_matrix(R"({
    "name": "mine",
    "axes": {"impl": ["none", "local"], "scope": [["mlp", "attn"], []], "pp": [1, 2],
             "num_layers": [2, 4]},
    "defaults": {"hidden_size": 16, "microbatches": 4},
    "strategy": "pairwise",
    "limits": {"max_ranks": 2, "deadline_seconds": 30}
  })",
                                    "my.json");
  EXPECT_EQ(matrix.name, "mine");
  EXPECT_EQ(matrix.strategy.kind, Strategy::Kind::t_wise);
  EXPECT_EQ(matrix.strategy.width, 2);
  EXPECT_EQ(read_matrix(R"({"name": "m", "strategy": "t-wise:4"})", "m.json").strategy.width, 4);
  EXPECT_EQ(matrix.limits.max_ranks, 2);
  EXPECT_EQ(matrix.limits.deadline_seconds, 30);
  const Expansion expansion(matrix);
  EXPECT_EQ(expansion.size(), 16U);
  const Cell last = expansion.cell(15);
  EXPECT_EQ(last.config.hidden_size, 16);
  EXPECT_EQ(last.config.num_microbatches, 4);
  EXPECT_EQ(last.config.num_layers, 4);
  EXPECT_EQ(last.config.pipeline_model_parallel_size, 2);
  EXPECT_EQ(last.config.cuda_graph_impl, CudaGraphImpl::local);
  EXPECT_TRUE(last.config.cuda_graph_scope.empty());
}

TEST(MatrixFile, ListsEverySubsetOfModules) {
  const Expansion expansion(read_matrix(
      R"({"name": "m", "axes": {"scope": [{"subsets_of": ["attn", "mlp"]}, "full_iteration"]}})",
      "my.json"));
  ASSERT_EQ(expansion.size(), 5U);
  EXPECT_EQ(expansion.name(0).id, "impl=none/scope=layer");
  EXPECT_EQ(expansion.name(3).id, "impl=none/scope=attn+mlp");
}

TEST(MatrixFile, ReadsCompositeAxes) {
  const Expansion expansion(read_matrix(
      R"({"name": "m",
          "axes": {"size": {"small": {"num_layers": 2, "pp": 1}, "large": {"num_layers": 8, "pp": 2}}},
          "defaults": {"size": "small"}})",
      "my.json"));
  ASSERT_EQ(expansion.size(), 2U);
  EXPECT_EQ(expansion.name(0).id, "impl=none/scope=layer/size=large");
  EXPECT_EQ(expansion.cell(0).config.num_layers, 8);
  EXPECT_EQ(expansion.cell(0).config.pipeline_model_parallel_size, 2);
  EXPECT_EQ(expansion.name(1).id, "impl=none/scope=layer");
}

TEST(MatrixFile, TakesAFieldUnderItsOwnNameAsTheAxisThatSetsIt) {
  const Expansion expansion(
      read_matrix(R"({"name": "m", "axes": {"pipeline_model_parallel_size": [1, 2]}})", "my.json"));
  EXPECT_EQ(expansion.name(1).id, "impl=none/scope=layer/pp=2");
}

TEST(MatrixFile, DoesNotNameAValueThatItsDefaultsTookApart) {
  const Expansion expansion(read_matrix(
      R"({"name": "m", "defaults": {"attention_dropout": 0, "hidden_dropout": 0.2}})", "my.json"));
  EXPECT_EQ(expansion.name(0).id, "impl=none/scope=layer");
  EXPECT_EQ(expansion.cell(0).config.hidden_dropout, 0.2F);
  Coordinates at;
  expansion.coordinates(0, at);
  EXPECT_FALSE(Filter::compile("dropout=0.1", expansion.matrix().axes, "f").selects(at));
}

TEST(MatrixFile, AppliesAnAxisOfOneValue) {
  const Expansion expansion(
      read_matrix(R"({"name": "m", "axes": {"pp": [2], "num_layers": [8]}})", "my.json"));
  EXPECT_EQ(expansion.name(0).id, "impl=none/scope=layer/pp=2/num_layers=8");
  EXPECT_EQ(expansion.cell(0).config.pipeline_model_parallel_size, 2);
  EXPECT_EQ(expansion.cell(0).config.num_layers, 8);
}

TEST(MatrixFile, PlacesBrokenJsonByLineAndColumn) {
  EXPECT_THAT(message_of("{\"name\": \"m\",\n  \"axes\": {,}}"),
              HasSubstr("my.json, line 2, column 12: not valid JSON"));
  EXPECT_THAT(message_of(""), HasSubstr("my.json, line 1, column 1: not valid JSON"));
}

TEST(MatrixFile, RefusesAKeyThatStandsTwice) {
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"pp": [1], "pp": [2]}})"),
              HasSubstr("'pp' stands twice"));
}

TEST(MatrixFile, RefusesDeepNesting) {
  EXPECT_THAT(message_of(std::string(1000, '[') + std::string(1000, ']')),
              HasSubstr("levels of nesting"));
}

TEST(MatrixFile, RefusesUnknownNamesWithTheNearest) {
  EXPECT_THAT(message_of(R"({"name": "m", "axess": {}})"),
              HasSubstr("unknown key 'axess'; the nearest is 'axes'"));
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"scop": ["attn"]}})"),
              HasSubstr("axes.scop: unknown axis or field 'scop'; the nearest is 'scope'"));
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"num_layer": [2]}})"),
              HasSubstr("the nearest is 'num_layers'"));
  EXPECT_THAT(
      message_of(R"({"name": "m", "axes": {"impl": ["none", "lcoal"]}})"),
      HasSubstr("axes.impl[1]: axis 'impl' has no value \"lcoal\"; the nearest is 'local'"));
  EXPECT_THAT(message_of(R"({"name": "m", "defaults": {"hiden_size": 2}})"),
              HasSubstr("defaults.hiden_size: unknown axis or field 'hiden_size'; the nearest is "
                        "'hidden_size'"));
  EXPECT_THAT(message_of(R"({"name": "m", "strategy": "pairwize"})"),
              HasSubstr("the nearest is 'pairwise'"));
  for (const char* width : {"", "1", "7", "03", "x", "-2"}) {
    EXPECT_THAT(message_of(std::string(R"({"name": "m", "strategy": "t-wise:)") + width + "\"}"),
                HasSubstr("expected t-wise:N with N from 2 to 6"));
  }
  EXPECT_THAT(message_of(R"({"name": "m", "limits": {"max_rank": 2}})"),
              HasSubstr("the nearest is 'max_ranks'"));
  EXPECT_THAT(
      message_of(R"({"name": "m", "exclude": ["imp=none"]})"),
      HasSubstr("my.json, exclude[0], column 1: unknown axis 'imp'; the nearest is 'impl'"));
}

TEST(MatrixFile, RefusesWrongTypes) {
  EXPECT_THAT(message_of("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(message_of(R"({"name": 3})"), HasSubstr("my.json, name: expected a text"));
  EXPECT_THAT(message_of(R"({"axes": {}})"), HasSubstr("my.json, name: a name"));
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"pp": 2}})"),
              HasSubstr("axes.pp: expected a list"));
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"pp": ["two"]}})"), HasSubstr("axes.pp[0]"));
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"pp": [true]}})"), HasSubstr("axes.pp[0]"));
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"scope": [{"all": 1}]}})"),
              HasSubstr("subsets_of"));
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"num_layers": ["many"]}})"),
              HasSubstr("axes.num_layers[0]"));
  EXPECT_THAT(message_of(R"({"name": "m", "include": "pp=1"})"),
              HasSubstr("include: expected a list"));
  EXPECT_THAT(message_of(R"({"name": "m", "limits": {"max_ranks": -1}})"),
              HasSubstr("limits.max_ranks: expected a whole number"));
}

TEST(MatrixFile, RefusesEmptyAxesAndDoubleValues) {
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"pp": []}})"),
              HasSubstr("axes.pp: the axis has no values"));
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"scope": ["attn+mlp", ["mlp", "attn"]]}})"),
              HasSubstr("axes.scope[1]: the value 'attn+mlp' stands twice"));
  EXPECT_THAT(
      message_of(R"({"name": "m", "axes": {"pp": [1], "pipeline_model_parallel_size": [2]}})"),
      HasSubstr("listed under two names"));
}

TEST(MatrixFile, RefusesTwoAxesThatSetOneField) {
  EXPECT_THAT(
      message_of(R"({"name": "m", "axes": {"model": ["dense"], "num_moe_experts": [2, 4]}})"),
      HasSubstr("both set the field num_moe_experts"));
  EXPECT_THAT(
      message_of(R"({"name": "m", "axes": {"dropout": [0]}, "defaults": {"hidden_dropout": 0}})"),
      HasSubstr("the axis 'dropout' sets this field too"));
}

TEST(MatrixFile, NamesBuiltinMatricesWhereNoneIsFound) {
  try {
    load_matrix("smok");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("neither a built-in matrix nor a readable file; the nearest is 'smoke'"));
  }
}

TEST(MatrixFile, ReadsEveryBuiltinMatrix) {
  for (const BuiltinMatrix& builtin : builtin_matrices()) {
    const Matrix matrix = load_matrix(std::string(builtin.name));
    EXPECT_EQ(matrix.name, builtin.name);
    EXPECT_FALSE(matrix.description.empty());
  }
}

TEST(MatrixFile, RefusesSizesAndRatesThatMakeNoModel) {
  const auto with_default = [](const std::string& text) {
    return message_of(R"({"name": "m", "defaults": {)" + text + "}}");
  };
  EXPECT_EQ(with_default(R"("num_layers": 0)"),
            "my.json, defaults.num_layers: num_layers: 0 is given where a whole number of at least "
            "1 is expected");
  for (const char* field :
       {"hidden_size", "num_attention_heads", "seq_length", "micro_batch_size"}) {
    EXPECT_THAT(with_default("\"" + std::string(field) + "\": -2"), HasSubstr("at least 1"))
        << field;
    EXPECT_EQ(with_default("\"" + std::string(field) + "\": 1"), "(accepted)") << field;
  }
  for (const char* field : {"hidden_dropout", "attention_dropout"}) {
    EXPECT_THAT(with_default("\"" + std::string(field) + "\": 1.0"), HasSubstr("below 1"));
    EXPECT_THAT(with_default("\"" + std::string(field) + "\": -0.1"), HasSubstr("below 1"));
    EXPECT_EQ(with_default("\"" + std::string(field) + "\": 0.9"), "(accepted)");
  }
}

TEST(MatrixFile, SaysThatAChoiceOfChecksIsNotBuilt) {
  EXPECT_THAT(message_of(R"({"name": "m", "checks": ["NUM-01"]})"),
              HasSubstr("my.json, checks: a choice of checks is not built yet"));
}

TEST(MatrixFile, RefusesNumbersBeyondAllTypes) {
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"pp": [1e400]}})"),
              HasSubstr("my.json: not valid JSON: number overflow parsing '1e400'"));
}

TEST(MatrixFile, SaysThatTheValuesOfAnOpenAxisAreExamples) {
  EXPECT_THAT(message_of(R"({"name": "m", "axes": {"pp": [-1.5]}})"),
              HasSubstr("axis 'pp' has no value -1.5; it takes values such as 1, 2, 4, 8"));
}

}  // namespace
}  // namespace cgconform::matrix
