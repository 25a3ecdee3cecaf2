#include "matrix/scale.hpp"

#include <string>

#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "matrix/expansion.hpp"
#include "matrix/matrix.hpp"

namespace cgconform::matrix {
namespace {

constexpr std::string_view plain = R"({"name": "m", "axes": {"impl": ["none", "local"]},
  "tiny": {"hidden_size": 16, "num_attention_heads": 2, "seq_length": 8},
  "defaults": {"num_layers": 2}})";

Cell first_cell(std::string_view text, std::string_view scale) {
  return Expansion(read_matrix(text, "m.json", scale)).cell(0);
}

TEST(ScaleOfAMatrix, TinyIsTheMatrixAsItIsWritten) {
  for (const char* scale : {"", "tiny"}) {
    const Expansion expansion(read_matrix(plain, "m.json", scale));
    EXPECT_EQ(expansion.name(0).id, "impl=none/scope=layer");
    EXPECT_EQ(expansion.cell(0).config.hidden_size, 16);
    EXPECT_EQ(expansion.cell(0).config.seq_length, 8);
    EXPECT_EQ(expansion.cell(0).config.micro_batch_size, 1);
  }
}

TEST(ScaleOfAMatrix, SetsEverySizeAndStandsInTheId) {
  for (const Scale& scale : scale_table()) {
    const Expansion expansion(read_matrix(plain, "m.json", scale.name));
    EXPECT_EQ(expansion.name(0).id, "impl=none/scope=layer/scale=" + std::string(scale.name));
    const Cell cell = expansion.cell(0);
    EXPECT_EQ(cell.config.hidden_size, scale.hidden_size);
    EXPECT_EQ(cell.config.num_attention_heads, scale.num_attention_heads);
    EXPECT_EQ(cell.config.seq_length, scale.seq_length);
    EXPECT_EQ(cell.config.micro_batch_size, scale.micro_batch_size);
    EXPECT_EQ(cell.shape.ffn_hidden_size, scale.ffn_hidden_size);
    EXPECT_EQ(cell.shape.vocab_size, scale.vocab_size);
    EXPECT_EQ(cell.config.num_layers, 2);
    EXPECT_EQ(cell.config.hidden_size % cell.config.num_attention_heads, 0);
  }
}

TEST(ScaleOfAMatrix, GivesWayToSizesThatAreNamed) {
  const Cell by_default = first_cell(
      R"({"name": "m", "axes": {}, "defaults": {"hidden_size": 24, "ffn": 40}})", "small");
  EXPECT_EQ(by_default.config.hidden_size, 24);
  EXPECT_EQ(by_default.config.num_attention_heads, TrainingConfig{}.num_attention_heads);
  EXPECT_EQ(by_default.shape.ffn_hidden_size, 40);
  EXPECT_EQ(by_default.config.seq_length, find_scale("small")->seq_length);

  const Cell by_axis =
      first_cell(R"({"name": "m", "axes": {"seq_length": [12, 20], "vocab": [48]}})", "medium");
  EXPECT_EQ(by_axis.config.seq_length, 12);
  EXPECT_EQ(by_axis.shape.vocab_size, 48);
  EXPECT_EQ(by_axis.config.hidden_size, find_scale("medium")->hidden_size);

  const Cell by_composite = first_cell(
      R"({"name": "m", "axes": {"shape": {"odd": {"hidden_size": 21, "num_attention_heads": 3},
                                          "even": {"hidden_size": 22, "num_attention_heads": 2}}}})",
      "large");
  EXPECT_EQ(by_composite.config.hidden_size, 22);
  EXPECT_EQ(by_composite.config.num_attention_heads, 2);
}

TEST(ScaleOfAMatrix, CanBeAnAxis) {
  const Expansion expansion(
      read_matrix(R"({"name": "m", "axes": {"scale": ["tiny", "small"], "seq_length": [8]},
                      "tiny": {"hidden_size": 16}})",
                  "m.json"));
  ASSERT_EQ(expansion.size(), 2U);
  EXPECT_EQ(expansion.cell(0).config.hidden_size, 16);
  EXPECT_EQ(expansion.cell(1).config.hidden_size, find_scale("small")->hidden_size);
  EXPECT_EQ(expansion.cell(1).config.seq_length, 8);
  EXPECT_THROW(read_matrix(R"({"name": "m", "axes": {"scale": ["tiny"]}})", "m.json", "small"),
               InputError);
}

TEST(ScaleOfAMatrix, LeavesTheIdsOfBuiltInMatricesAsTheyAre) {
  for (const BuiltinMatrix& builtin : builtin_matrices()) {
    const Expansion own(load_matrix(std::string(builtin.name)));
    const Expansion tiny(load_matrix(std::string(builtin.name), "tiny"));
    EXPECT_EQ(own.name(0).hash, tiny.name(0).hash);
    EXPECT_EQ(own.cell(0).config, tiny.cell(0).config);
    EXPECT_EQ(own.name(0).id.find("scale="), std::string::npos);
  }
  EXPECT_EQ(Expansion(load_matrix("smoke")).cell(0).config.hidden_size, 16);
  EXPECT_EQ(Expansion(load_matrix("smoke", "medium")).cell(0).config.hidden_size, 512);
}

TEST(ScaleOfAMatrix, RefusesUnknownOnesWithTheNearest) {
  try {
    checked_scale("smal");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("the nearest is 'small'"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(checked_scale("large"), "large");
}

/// What a cell keeps, by the bytes of a parameter: a 16-bit weight, gradient, main weight and two
/// states of Adam, of every step of every leg, and once more while a leg runs.
TEST(ScaleOfAMatrix, LargeFitsAnH200In16Bits) {
  constexpr double steps = 4.0;
  constexpr double legs = 8.0;
  constexpr double bytes_a_parameter = 2.0 + 4.0 + 4.0 + 8.0;
  constexpr double layers = 16.0;
  constexpr double h200_bytes = 143771.0 * 1024 * 1024;
  const Scale& large = *find_scale("large");
  const double hidden = large.hidden_size;
  const double parameters =
      layers * (4.0 * hidden * hidden + 2.0 * hidden * large.ffn_hidden_size) +
      (2.0 * large.vocab_size + large.seq_length) * hidden;
  EXPECT_LT(parameters * bytes_a_parameter * (steps * legs + 1.0), 0.9 * h200_bytes);
}

}  // namespace
}  // namespace cgconform::matrix
