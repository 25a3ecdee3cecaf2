#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/model_fixture.hpp"
#include "workloads/layers/moe_layer.hpp"
#include "workloads/layers/parameter_store.hpp"

namespace cgconform::workloads::test {
namespace {

struct MoeSizes {
  TransformerShape layer;
  MoeShape moe;
};

MoeSizes random_sizes(std::uint64_t seed) {
  Random random(seed);
  MoeSizes sizes;
  sizes.layer.sequences = static_cast<std::int32_t>(random_extent(random, 1, 2));
  sizes.layer.length = static_cast<std::int32_t>(random_extent(random, 1, 3));
  sizes.layer.heads = 1;
  sizes.layer.hidden = static_cast<std::int32_t>(random_extent(random, 2, 3));
  sizes.layer.hidden_dropout = random() % 2 == 0 ? 0.0F : 0.25F;
  sizes.moe.experts = static_cast<std::int32_t>(random_extent(random, 2, 4));
  sizes.moe.top_k = static_cast<std::int32_t>(random_extent(random, 1, 2));
  sizes.moe.ffn_hidden = static_cast<std::int32_t>(random_extent(random, 1, 4));
  sizes.moe.shared_hidden = random() % 2 == 0 ? 0 : 3;
  sizes.moe.capacity = seed % 2 == 0 ? 0 : static_cast<std::int32_t>(random_extent(random, 1, 2));
  sizes.moe.jitter = random() % 2 == 0 ? 0.0F : 0.25F;
  sizes.moe.balance_coefficient = 0.5F;
  sizes.moe.expert_bias = random() % 2 == 0;
  return sizes;
}

/// A MoE layer on the reference device with an input of its own.
struct MoeFixture : LayerFixture {
  explicit MoeFixture(const MoeSizes& layer_sizes, std::uint64_t seed = 3)
      : sizes(layer_sizes),
        store(allocator, *stream, DType::fp64, seed),
        layer("layers.0", sizes.layer, sizes.moe, ModuleParameters{store, 0}) {
    Random random(seed);
    input = random_tensor<double>(random, Shape{sizes.layer.tokens(), sizes.layer.hidden});
    weights = random_tensor<double>(random, input.shape);
  }

  std::vector<double> forward() {
    saved.clear();
    KeepingTap tap(*stream);
    LayerContext called = context();
    called.tap = &tap;
    called.recompute = recompute;
    kept_input = put(input);
    std::vector<double> output = get(layer.forward(called, kept_input.view(), saved).view());
    tapped = std::move(tap.tapped);
    return output;
  }
  std::vector<double> backward() {
    LayerContext called = context();
    called.recompute = recompute;
    return get(layer.backward(called, put(weights).view(), saved).view());
  }
  /// The layer's output weighted by `weights` plus the load-balancing loss, always with the same
  /// random numbers.
  double loss() {
    reset_rng();
    const double output = dot(HostTensor<double>(input.shape, forward()), weights);
    return output + values<double>("load_balancing_loss").at(0);
  }
  template <typename T>
  std::vector<T> values(const std::string& name) const {
    for (const auto& [tensor, bytes] : tapped) {
      if (tensor != name) continue;
      std::vector<T> result(bytes.size() / sizeof(T));
      std::memcpy(result.data(), bytes.data(), bytes.size());
      return result;
    }
    return {};
  }

  MoeSizes sizes;
  ParameterStore store;
  MoeTransformerLayer layer;
  matrix::RecomputeModules recompute;
  HostTensor<double> input{Shape{1}};
  HostTensor<double> weights{Shape{1}};
  Buffer kept_input;
  SavedActivations saved;
  std::vector<std::pair<std::string, std::vector<std::byte>>> tapped;
};

class MoeGradient : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(RandomShapes, MoeGradient, ::testing::Range<std::uint64_t>(0, 8));

TEST_P(MoeGradient, AgreesWithFiniteDifferences) {
  MoeFixture f(random_sizes(GetParam()));
  const auto loss = [&f] { return f.loss(); };
  loss();
  const std::vector<std::int32_t> routing = f.values<std::int32_t>("routing:experts");
  ASSERT_FALSE(routing.empty());
  const HostTensor<double> grad_input(f.input.shape, f.backward());
  expect_gradient(loss, f.input, grad_input, "input");
  for (const Parameter& parameter : f.layer.parameters()) {
    if (parameter.name == "mlp.router.expert_bias") continue;  // follows the load instead
    HostTensor<double> weight(parameter.weight.shape, f.get(parameter.weight));
    const HostTensor<double> gradient(weight.shape, f.get(parameter.main_grad));
    const auto loss_of_weight = [&] {
      f.set(parameter.weight, weight.values);
      return f.loss();
    };
    expect_gradient(loss_of_weight, weight, gradient, parameter.name);
  }
  EXPECT_EQ(f.values<std::int32_t>("routing:experts"), routing);
}

MoeSizes small_sizes(std::int32_t capacity) {
  MoeSizes sizes;
  sizes.layer.sequences = 2;
  sizes.layer.length = 3;
  sizes.layer.hidden = 4;
  sizes.layer.heads = 2;
  sizes.layer.hidden_dropout = 0.25F;
  sizes.moe.experts = 3;
  sizes.moe.top_k = 2;
  sizes.moe.ffn_hidden = 5;
  sizes.moe.shared_hidden = 3;
  sizes.moe.capacity = capacity;
  sizes.moe.jitter = 0.125F;
  sizes.moe.balance_coefficient = 0.5F;
  return sizes;
}

TEST(MoeLayer, WithRoomForAllTokensEqualsOneThatDropsNone) {
  MoeFixture dropless(small_sizes(0));
  MoeFixture padded(small_sizes(6));  // all tokens may go to one expert
  EXPECT_EQ(padded.loss(), dropless.loss());
  EXPECT_EQ(padded.backward(), dropless.backward());
  for (std::size_t i = 0; i < padded.layer.parameters().size(); ++i) {
    const std::vector<double> expected = dropless.get(dropless.layer.parameters()[i].main_grad);
    const std::vector<double> actual = padded.get(padded.layer.parameters()[i].main_grad);
    for (std::size_t element = 0; element < expected.size(); ++element) {
      EXPECT_NEAR(actual[element], expected[element], 1e-12) << padded.layer.parameters()[i].name;
    }
  }
}

TEST(MoeLayer, CountsWhatItDropsAndKeepsTheRest) {
  MoeFixture f(small_sizes(2));
  f.loss();
  const auto load = f.values<std::int32_t>("routing:load");
  const auto slots = f.values<std::int32_t>("routing:slots");
  const auto overflow = f.values<std::int32_t>("routing:overflow");
  ASSERT_EQ(load.size(), 3U);
  const auto kept = std::count_if(slots.begin(), slots.end(), [](auto slot) { return slot >= 0; });
  EXPECT_GT(std::accumulate(overflow.begin(), overflow.end(), 0), 0);
  EXPECT_EQ(kept + std::accumulate(overflow.begin(), overflow.end(), 0), 12);
}

class MoeRecompute : public ::testing::TestWithParam<matrix::RecomputeModule> {};
INSTANTIATE_TEST_SUITE_P(Modules, MoeRecompute,
                         ::testing::Values(matrix::RecomputeModule::moe,
                                           matrix::RecomputeModule::moe_act,
                                           matrix::RecomputeModule::shared_experts,
                                           matrix::RecomputeModule::layernorm),
                         [](const auto& module) { return std::to_string(module.index); });

TEST_P(MoeRecompute, KeepsLessAndChangesNothing) {
  for (const std::int32_t capacity : {0, 2}) {
    MoeFixture plain(small_sizes(capacity));
    MoeFixture recomputed(small_sizes(capacity));
    recomputed.recompute.insert(GetParam());
    EXPECT_EQ(recomputed.loss(), plain.loss());
    const auto bytes = [](const MoeFixture& f) {
      std::int64_t sum = 0;
      for (const auto& [name, buffer] : f.saved.all()) {
        if (!name.ends_with(".output") || name.find("moe_") == std::string::npos) {
          sum += buffer.view().bytes();
        }
      }
      return sum;
    };
    EXPECT_LT(bytes(recomputed), bytes(plain));
    const std::vector<std::uint64_t> state = recomputed.rng_state();
    EXPECT_EQ(recomputed.backward(), plain.backward());
    EXPECT_EQ(recomputed.rng_state(), state);
    for (std::size_t i = 0; i < plain.layer.parameters().size(); ++i) {
      EXPECT_EQ(recomputed.get(recomputed.layer.parameters()[i].main_grad),
                plain.get(plain.layer.parameters()[i].main_grad))
          << plain.layer.parameters()[i].name;
    }
  }
}

TEST(MoeLayer, ValidationSavesNothingAndAddsNoNoise) {
  MoeFixture f(small_sizes(2));
  LayerContext context = f.context();
  context.training = false;
  f.layer.forward(context, f.put(f.input).view(), f.saved);
  EXPECT_TRUE(f.saved.all().empty());
  EXPECT_EQ(f.rng_state()[1], 0U);
}

TEST(MoeLayer, IsItsModulesRunInTurnAlsoInSections) {
  for (const std::size_t split : {1U, 2U, 3U, 4U}) {
    MoeFixture f(small_sizes(2));
    f.reset_rng();
    const std::vector<double> whole = f.forward();
    const std::vector<double> whole_grad = f.backward();
    f.reset_rng();
    LayerContext context = f.context();
    const auto modules = f.layer.modules();
    LayerSection before(modules.first(split));
    LayerSection after(modules.subspan(split));
    SavedActivations saved_before;
    SavedActivations saved_after;
    const Buffer input = f.put(f.input);
    const Buffer middle = before.forward(context, input.view(), saved_before);
    if (split > 1) {
      EXPECT_EQ(middle.view().bytes(), before.output_bytes());
    }
    EXPECT_EQ(f.get(after.forward(context, middle.view(), saved_after).view()), whole);
    const Buffer grad = after.backward(context, f.put(f.weights).view(), saved_after);
    if (split > 1) {
      EXPECT_EQ(grad.view().bytes(), before.grad_output_bytes());
    }
    EXPECT_EQ(f.get(before.backward(context, grad.view(), saved_before).view()), whole_grad);
  }
}

}  // namespace
}  // namespace cgconform::workloads::test
