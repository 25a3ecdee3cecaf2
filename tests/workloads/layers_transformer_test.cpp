#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/model_fixture.hpp"
#include "workloads/layers/parameter_store.hpp"
#include "workloads/layers/transformer_layer.hpp"

namespace cgconform::workloads::test {
namespace {

TransformerShape small_shape() {
  TransformerShape shape;
  shape.sequences = 2;
  shape.length = 3;
  shape.hidden = 4;
  shape.heads = 2;
  shape.ffn_hidden = 5;
  return shape;
}

/// A transformer layer on the reference device with an input of its own.
struct TransformerFixture : LayerFixture {
  explicit TransformerFixture(const TransformerShape& layer_shape, std::uint64_t seed = 3)
      : shape(layer_shape),
        store(allocator, *stream, DType::fp64, seed),
        layer("layers.0", shape, ModuleParameters{store}) {
    Random random(seed);
    input = random_tensor<double>(random, Shape{shape.tokens(), shape.hidden});
    weights = random_tensor<double>(random, input.shape);
  }

  std::vector<double> forward() {
    saved.clear();
    LayerContext called = context();
    return get(layer.forward(called, put(input).view(), saved).view());
  }
  std::vector<double> backward() {
    LayerContext called = context();
    return get(layer.backward(called, put(weights).view(), saved).view());
  }
  /// The layer's output weighted by `weights`, always under the same dropout masks.
  double loss() {
    reset_rng();
    return dot(HostTensor<double>(input.shape, forward()), weights);
  }

  TransformerShape shape;
  ParameterStore store;
  TransformerLayer layer;
  HostTensor<double> input{Shape{1}};
  HostTensor<double> weights{Shape{1}};
  SavedActivations saved;
};

TransformerShape random_shape(std::uint64_t seed) {
  Random random(seed);
  TransformerShape shape;
  shape.sequences = static_cast<std::int32_t>(random_extent(random, 1, 2));
  shape.length = static_cast<std::int32_t>(random_extent(random, 1, 3));
  shape.heads = static_cast<std::int32_t>(random_extent(random, 1, 3));
  shape.hidden = shape.heads * static_cast<std::int32_t>(random_extent(random, 2, 3));
  shape.ffn_hidden = static_cast<std::int32_t>(random_extent(random, 1, 5));
  shape.attention_dropout = random() % 2 == 0 ? 0.0F : 0.25F;
  shape.hidden_dropout = random() % 2 == 0 ? 0.0F : 0.25F;
  shape.bias = random() % 4 != 0;
  return shape;
}

class TransformerGradient : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(RandomShapes, TransformerGradient, ::testing::Range<std::uint64_t>(0, 6));

TEST_P(TransformerGradient, AgreesWithFiniteDifferences) {
  TransformerFixture f(random_shape(GetParam()));
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

TEST(TransformerLayer, BackwardAddsToTheGradientsItFinds) {
  TransformerFixture f(small_shape());
  f.loss();
  f.backward();
  std::vector<std::vector<double>> once;
  for (const Parameter& parameter : f.layer.parameters())
    once.push_back(f.get(parameter.main_grad));
  f.backward();
  for (std::size_t i = 0; i < once.size(); ++i) {
    for (double& value : once[i]) value *= 2.0;
    EXPECT_EQ(f.get(f.layer.parameters()[i].main_grad), once[i]) << f.layer.parameters()[i].name;
  }
}

TEST(TransformerLayer, IsItsAttentionFollowedByItsMlp) {
  TransformerShape shape = small_shape();
  shape.hidden_dropout = 0.25F;
  shape.attention_dropout = 0.25F;
  TransformerFixture f(shape);
  f.reset_rng();
  const std::vector<double> whole = f.forward();
  const std::vector<double> whole_grad = f.backward();
  f.reset_rng();
  LayerContext context = f.context();
  SavedActivations attention_saved;
  SavedActivations mlp_saved;
  ASSERT_EQ(f.layer.modules().size(), 2U);
  Layer& attention = *f.layer.modules()[0].layer;
  Layer& mlp = *f.layer.modules()[1].layer;
  const Buffer attended = attention.forward(context, f.put(f.input).view(), attention_saved);
  const Buffer output = mlp.forward(context, attended.view(), mlp_saved);
  EXPECT_EQ(f.get(output.view()), whole);
  const Buffer grad_attended = mlp.backward(context, f.put(f.weights).view(), mlp_saved);
  const Buffer grad_input = attention.backward(context, grad_attended.view(), attention_saved);
  EXPECT_EQ(f.get(grad_input.view()), whole_grad);
}

TEST(TransformerLayer, NoPositionSeesALaterOne) {
  TransformerFixture f(small_shape());
  const std::vector<double> before = f.forward();
  const auto hidden = static_cast<std::size_t>(f.shape.hidden);
  const auto length = static_cast<std::size_t>(f.shape.length);
  const std::size_t changed = 1;     // of the first sequence
  f.input[changed * hidden] += 1.0;  // one element: the norm takes a common shift out
  const std::vector<double> after = f.forward();
  for (std::size_t row = 0; row < 2 * length; ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * hidden);
    const bool same = std::equal(before.begin() + begin,
                                 before.begin() + begin + static_cast<std::ptrdiff_t>(hidden),
                                 after.begin() + begin);
    EXPECT_EQ(same, row < changed || row >= length) << "row " << row;
  }
}

TEST(TransformerLayer, ValidationDrawsNothingSavesNothingAndDropsNothing) {
  TransformerShape shape = small_shape();
  TransformerFixture plain(shape);
  shape.hidden_dropout = 0.5F;
  shape.attention_dropout = 0.5F;
  TransformerFixture f(shape);
  LayerContext context = f.context();
  context.training = false;
  SavedActivations saved;
  const Buffer output = f.layer.forward(context, f.put(f.input).view(), saved);
  EXPECT_EQ(f.get(output.view()), plain.forward());
  EXPECT_TRUE(saved.all().empty());
  EXPECT_EQ(f.rng_state(), (std::vector<std::uint64_t>{99, 0}));
}

TEST(TransformerLayer, TakesAllTemporariesOutputsAndActivationsFromTheContextsPool) {
  TransformerShape shape = small_shape();
  shape.hidden_dropout = 0.5F;
  TransformerFixture f(shape);
  const Buffer input = f.put(f.input);
  const Buffer grad = f.put(f.weights);
  const PoolId pool = f.allocator.create_pool("layer");
  const std::uint64_t before = f.allocator.statistics(default_pool).allocations;
  LayerContext context = f.context(pool);
  {
    SavedActivations saved;
    const Buffer output = f.layer.forward(context, input.view(), saved);
    const Buffer grad_input = f.layer.backward(context, grad.view(), saved);
    EXPECT_EQ(output.block().pool, pool);
    EXPECT_EQ(grad_input.block().pool, pool);
    for (const auto& [name, buffer] : saved.all()) EXPECT_EQ(buffer.block().pool, pool) << name;
  }
  EXPECT_EQ(f.allocator.statistics(default_pool).allocations, before);
  EXPECT_GT(f.allocator.statistics(pool).allocations, 0U);
  EXPECT_EQ(f.allocator.statistics(pool).live_blocks, 0);
}

/// Masks that a forward taps.
std::vector<std::pair<std::string, std::vector<std::byte>>> masks(TransformerFixture& f) {
  KeepingTap tap(*f.stream);
  LayerContext context = f.context();
  context.tap = &tap;
  SavedActivations saved;
  f.layer.forward(context, f.put(f.input).view(), saved);
  return tap.tapped;
}

TransformerShape dropping_shape() {
  TransformerShape shape = small_shape();
  shape.hidden_dropout = 0.5F;
  shape.attention_dropout = 0.5F;
  return shape;
}

TEST(TransformerLayer, TapsOneMaskForEachDropoutAndDrawsNewOnesEveryTime) {
  TransformerFixture f(dropping_shape());
  const auto first = masks(f);
  const auto second = masks(f);
  ASSERT_EQ(first.size(), 3U);
  std::set<std::string> names;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(names.insert(first[i].first).second);
    EXPECT_EQ(first[i].first.rfind("dropout_mask:", 0), 0U) << first[i].first;
    EXPECT_NE(first[i].second, second[i].second) << first[i].first;
  }
  EXPECT_NE(first[1].second, first[2].second) << "the two hidden dropouts draw the same mask";
  EXPECT_EQ(f.rng_state()[1], 4U) << "hidden dropouts";
  EXPECT_EQ(f.rng_state(RngStream::tensor_parallel)[1], 2U) << "attention dropout";
}

TEST(TransformerLayer, RestoringTheRandomStateRestoresTheMasks) {
  TransformerFixture f(dropping_shape());
  const auto first = masks(f);
  f.reset_rng();
  EXPECT_EQ(masks(f), first);
}

TEST(TransformerLayer, FaultF07aDrawsTheSameMasksWhateverTheDeviceStateIs) {
  TransformerFixture f(dropping_shape());
  f.faults.turn_on(Fault::f07a_offset_by_value);
  const auto first = masks(f);
  f.reset_rng(1000);
  EXPECT_EQ(masks(f), first);
  EXPECT_EQ(f.rng_state()[1], 1000U);
}

TEST(TransformerLayer, FaultF07bLeavesTheOffsetWhereItWas) {
  TransformerFixture f(dropping_shape());
  f.faults.turn_on(Fault::f07b_offset_not_advanced);
  const auto first = masks(f);
  EXPECT_EQ(masks(f), first);
  EXPECT_EQ(f.rng_state()[1], 0U);
}

TEST(SavedActivations, NamesAnActivationThatWasNotKept) {
  const SavedActivations saved;
  try {
    saved.at("mlp.fc1");
    FAIL() << "no error";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("mlp.fc1"), std::string::npos);
  }
}

}  // namespace
}  // namespace cgconform::workloads::test
