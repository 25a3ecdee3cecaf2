#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/model_fixture.hpp"
#include "workloads/layers/mamba_mixer.hpp"
#include "workloads/layers/parameter_store.hpp"

namespace cgconform::workloads::test {
namespace {

TransformerShape random_shape(std::uint64_t seed) {
  Random random(seed);
  TransformerShape shape;
  shape.sequences = static_cast<std::int32_t>(random_extent(random, 1, 2));
  shape.length = static_cast<std::int32_t>(random_extent(random, 1, 4));
  shape.heads = static_cast<std::int32_t>(random_extent(random, 1, 2));
  shape.hidden = shape.heads * static_cast<std::int32_t>(random_extent(random, 2, 3));
  shape.hidden_dropout = random() % 2 == 0 ? 0.0F : 0.25F;
  return shape;
}

/// A Mamba layer on the reference device with an input of its own.
struct MambaFixture : LayerFixture {
  explicit MambaFixture(const TransformerShape& layer_shape, std::uint64_t seed = 3)
      : shape(layer_shape),
        store(allocator, *stream, DType::fp64, seed),
        layer("layers.0", shape, ModuleParameters{store}) {
    Random random(seed);
    input = random_tensor<double>(random, Shape{shape.tokens(), shape.hidden});
    weights = random_tensor<double>(random, input.shape);
  }

  std::vector<double> forward(TensorTap* tap = nullptr) {
    reset_rng();
    saved.clear();
    LayerContext called = context();
    called.tap = tap;
    called.cu_seqlens = cu_seqlens();
    return get(layer.forward(called, put(input).view(), saved).view());
  }
  std::vector<double> backward() {
    LayerContext called = context();
    called.cu_seqlens = cu_seqlens();
    return get(layer.backward(called, put(weights).view(), saved).view());
  }
  double loss() { return dot(HostTensor<double>(input.shape, forward()), weights); }

  TensorView cu_seqlens() { return borders.has_value() ? borders->view() : TensorView{}; }

  TransformerShape shape;
  std::optional<Buffer> borders;  ///< of sequences packed in the rows of the batch
  ParameterStore store;
  MambaMixer layer;
  HostTensor<double> input{Shape{1}};
  HostTensor<double> weights{Shape{1}};
  SavedActivations saved;
};

class MambaGradient : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(RandomShapes, MambaGradient, ::testing::Range<std::uint64_t>(0, 5));

TEST_P(MambaGradient, AgreesWithFiniteDifferences) {
  MambaFixture f(random_shape(GetParam()));
  const auto loss = [&f] { return f.loss(); };
  loss();
  const HostTensor<double> grad_input(f.input.shape, f.backward());
  expect_gradient(loss, f.input, grad_input, "input");
  for (const Parameter& parameter : f.layer.parameters()) {
    HostTensor<double> weight(parameter.weight.shape, f.get(parameter.weight));
    const HostTensor<double> gradient(weight.shape, f.get(parameter.main_grad));
    const auto loss_of_weight = [&] {
      f.set(parameter.weight, weight.values);
      return f.loss();
    };
    expect_gradient(loss_of_weight, weight, gradient, parameter.name);
  }
}

TransformerShape two_sequences() {
  TransformerShape shape;
  shape.sequences = 2;
  shape.length = 4;
  shape.hidden = 4;
  shape.heads = 2;
  return shape;
}

TEST(MambaMixer, CarriesItsStateAlongASequenceAndNotIntoTheNext) {
  MambaFixture f(two_sequences());
  const std::vector<double> before = f.forward();
  f.input.values[0] += 1.0;  // the first token of the first sequence
  const std::vector<double> after = f.forward();
  const std::size_t last_of_first = std::size_t{3} * 4;
  const std::size_t first_of_second = std::size_t{4} * 4;
  EXPECT_NE(before[last_of_first], after[last_of_first]) << "over the border of two chunks";
  for (std::size_t i = first_of_second; i < before.size(); ++i) EXPECT_EQ(before[i], after[i]);
}

TEST(MambaMixer, DoesWithPackedSequencesWhatItDoesWithSingleOnes) {
  MambaFixture apart(two_sequences());
  TransformerShape packed_shape = two_sequences();
  packed_shape.sequences = 1;
  packed_shape.length = 8;
  MambaFixture packed(packed_shape);
  packed.borders = packed.put(HostTensor<std::int32_t>(Shape{1, 3}, {0, 4, 8}));
  packed.input = apart.input;
  packed.weights = apart.weights;
  EXPECT_EQ(packed.forward(), apart.forward());
  EXPECT_EQ(packed.backward(), apart.backward());
  for (std::size_t i = 0; i < apart.layer.parameters().size(); ++i) {
    const std::vector<double> expected = apart.get(apart.layer.parameters()[i].main_grad);
    const std::vector<double> actual = packed.get(packed.layer.parameters()[i].main_grad);
    ASSERT_EQ(expected.size(), actual.size());
    for (std::size_t at = 0; at < expected.size(); ++at) {
      EXPECT_NEAR(expected[at], actual[at], 1e-12) << apart.layer.parameters()[i].name;
    }
  }
}

TEST(MambaMixer, SeesNoLaterToken) {
  MambaFixture f(two_sequences());
  const std::vector<double> before = f.forward();
  f.input.values[std::size_t{3} * 4] += 1.0;  // the last token of the first sequence
  const std::vector<double> after = f.forward();
  for (std::size_t i = 0; i < std::size_t{3} * 4; ++i) EXPECT_EQ(before[i], after[i]);
}

TEST(MambaMixer, StartsEverySequenceFromZeroUnlessTheFaultIsOn) {
  MambaFixture f(two_sequences());
  KeepingTap tap(*f.stream);
  f.forward(&tap);
  ASSERT_EQ(tap.tapped.size(), 2U);
  EXPECT_EQ(tap.tapped[0].first, "scan_state:start");
  const std::vector<std::byte> zeros(tap.tapped[0].second.size());
  EXPECT_EQ(tap.tapped[0].second, zeros);
  EXPECT_EQ(tap.tapped[1].first, "scan_state:end");
  EXPECT_NE(tap.tapped[1].second, std::vector<std::byte>(tap.tapped[1].second.size()));

  f.faults.turn_on(Fault::f02f_scan_state_zeroed_outside);
  f.forward();
  SavedActivations kept = std::move(f.saved);
  const std::vector<double> states = f.get(kept.at("mixer.scan.states"));
  const std::size_t one = states.size() / 3;
  EXPECT_EQ(std::vector<double>(states.begin(), states.begin() + std::ptrdiff_t(one)),
            std::vector<double>(states.end() - std::ptrdiff_t(one), states.end()));
}

TEST(MambaMixer, KeepsTheStatesOfChunkBordersOnly) {
  TransformerShape shape = two_sequences();
  shape.length = 8;
  MambaFixture f(shape);
  f.forward();
  // Two chunks of four positions: the start, the border and the end.
  EXPECT_EQ(f.saved.at("mixer.scan.states").shape[0], 3 * 2);
}

TEST(MambaMixer, DropsNothingAndKeepsNothingInValidation) {
  TransformerShape shape = two_sequences();
  shape.hidden_dropout = 0.5F;
  MambaFixture f(shape);
  LayerContext context = f.context();
  context.training = false;
  const Buffer output = f.layer.forward(context, f.put(f.input).view(), f.saved);
  EXPECT_TRUE(f.saved.all().empty());
  EXPECT_EQ(f.rng_state()[1], 0U);
}

}  // namespace
}  // namespace cgconform::workloads::test
