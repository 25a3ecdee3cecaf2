#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/model_fixture.hpp"
#include "workloads/layers/parameter_store.hpp"
#include "workloads/layers/transformer_layer.hpp"
#include "workloads/layers/vision_encoder.hpp"

namespace cgconform::workloads::test {
namespace {

/// One layer on the reference device, of a shape that a test chose.
struct VariantFixture : LayerFixture {
  explicit VariantFixture(const TransformerShape& layer_shape, std::uint64_t seed = 3)
      : shape(layer_shape),
        store(allocator, *stream, DType::fp64, seed),
        layer("layers.0", shape, ModuleParameters{store}) {
    Random random(seed);
    input = random_tensor<double>(random, Shape{shape.tokens(), shape.hidden});
    weights = random_tensor<double>(random, input.shape);
  }

  LayerContext called(matrix::RecomputeModules recompute = {}) {
    LayerContext result = context();
    result.recompute = recompute;
    if (borders.valid()) result.cu_seqlens = borders.view();
    return result;
  }
  std::vector<double> forward(matrix::RecomputeModules recompute = {}) {
    reset_rng();
    saved.clear();
    put_input = put(input);
    LayerContext context = called(recompute);
    return get(layer.forward(context, put_input.view(), saved).view());
  }
  std::vector<double> backward(matrix::RecomputeModules recompute = {}) {
    LayerContext context = called(recompute);
    return get(layer.backward(context, put(weights).view(), saved).view());
  }
  double loss() { return dot(HostTensor<double>(input.shape, forward()), weights); }

  TransformerShape shape;
  ParameterStore store;
  TransformerLayer layer;
  HostTensor<double> input{Shape{1}};
  HostTensor<double> weights{Shape{1}};
  Buffer put_input;
  Buffer borders;  ///< cu_seqlens
  SavedActivations saved;
};

TransformerShape base_shape() {
  TransformerShape shape;
  shape.sequences = 2;
  shape.length = 3;
  shape.hidden = 8;
  shape.heads = 4;
  shape.ffn_hidden = 3;
  shape.attention_dropout = 0.25F;
  return shape;
}

TransformerShape grouped_shape() {
  TransformerShape shape = base_shape();
  shape.groups = 2;
  return shape;
}

TransformerShape latent_shape() {
  TransformerShape shape = base_shape();
  shape.latent = true;
  return shape;
}

void expect_all_gradients(VariantFixture& f) {
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

TEST(GroupedAttention, GradientsAgreeWithFiniteDifferences) {
  VariantFixture f(grouped_shape());
  expect_all_gradients(f);
}

TEST(GroupedAttention, HasFewerKeysAndValues) {
  const auto qkv_rows = [](const TransformerShape& shape) {
    VariantFixture f(shape);
    return f.layer.parameters()[2].weight.shape[0];
  };
  EXPECT_EQ(qkv_rows(base_shape()), 3 * 8);
  EXPECT_EQ(qkv_rows(grouped_shape()), 8 + 2 * 4);
}

TEST(LatentAttention, GradientsAgreeWithFiniteDifferences) {
  VariantFixture f(latent_shape());
  expect_all_gradients(f);
}

TEST(LatentAttention, RecomputeOfTheUpProjectionKeepsNoHeadsAndChangesNoGradient) {
  using matrix::RecomputeModule;
  using matrix::RecomputeModules;
  VariantFixture kept(latent_shape());
  kept.forward();
  EXPECT_TRUE(kept.saved.contains("key"));
  const std::vector<double> expected = kept.backward();
  for (const RecomputeModules modules :
       {RecomputeModules{RecomputeModule::mla_up_proj},
        RecomputeModules{RecomputeModule::mla_up_proj, RecomputeModule::core_attn,
                         RecomputeModule::layernorm}}) {
    VariantFixture f(latent_shape());
    f.forward(modules);
    EXPECT_FALSE(f.saved.contains("key"));
    EXPECT_EQ(f.backward(modules), expected);
    for (std::size_t i = 0; i < f.layer.parameters().size(); ++i) {
      EXPECT_EQ(f.get(f.layer.parameters()[i].main_grad),
                kept.get(kept.layer.parameters()[i].main_grad))
          << f.layer.parameters()[i].name;
    }
  }
}

TEST(PackedAttention, GradientsAgreeWithFiniteDifferences) {
  VariantFixture f(base_shape());
  f.borders = f.put(Shape{2, 3}, std::vector<std::int32_t>{0, 2, 3, 0, 1, 3});
  expect_all_gradients(f);
}

TEST(PackedAttention, SequencesOfOneRowDoNotSeeEachOther) {
  VariantFixture f(base_shape());
  f.borders = f.put(Shape{2, 3}, std::vector<std::int32_t>{0, 2, 3, 0, 3, 3});
  const std::vector<double> before = f.forward();
  f.input.values[0] += 1.0;                   // first sequence of the first row
  f.input.values[std::size_t{3} * 8] += 1.0;  // the one sequence of the second row
  const std::vector<double> after = f.forward();
  const auto row_differs = [&](std::size_t row) { return before[row * 8] != after[row * 8]; };
  EXPECT_TRUE(row_differs(1));
  EXPECT_FALSE(row_differs(2)) << "the second packed sequence";
  EXPECT_TRUE(row_differs(5)) << "not packed";
}

TEST(VisionEncoder, GradientsAgreeWithFiniteDifferences) {
  LayerFixture f;
  TransformerShape shape = base_shape();
  shape.hidden = 4;
  ParameterStore store(f.allocator, *f.stream, DType::fp64, 3);
  VisionEncoder encoder(shape, 3, ModuleParameters{store});
  Random random(5);
  const HostTensor<double> patches = random_tensor<double>(random, Shape{4, 3});
  const HostTensor<double> weights = random_tensor<double>(random, Shape{4, 4});
  const auto loss = [&] {
    LayerContext context = f.context();
    SavedActivations dropped;
    const Buffer output = encoder.forward(context, f.put(patches).view(), dropped);
    return dot(HostTensor<double>(weights.shape, f.get(output.view())), weights);
  };
  LayerContext context = f.context();
  encoder.backward(context, f.put(patches).view(), f.put(weights).view());
  for (const Parameter& parameter : encoder.parameters()) {
    HostTensor<double> weight(parameter.weight.shape, f.get(parameter.weight));
    const HostTensor<double> gradient(weight.shape, f.get(parameter.main_grad));
    const auto loss_of_weight = [&] {
      f.set(parameter.weight, weight.values);
      return loss();
    };
    expect_gradient(loss_of_weight, weight, gradient, parameter.name);
  }
}

}  // namespace
}  // namespace cgconform::workloads::test
