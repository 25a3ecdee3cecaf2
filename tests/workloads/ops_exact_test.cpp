#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/host_stream.hpp"
#include "tests/workloads/host_tensor.hpp"
#include "workloads/ops/attention.hpp"
#include "workloads/ops/dropout.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/embedding_and_loss.hpp"
#include "workloads/ops/fill.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/ops/layer_norm.hpp"
#include "workloads/ops/optimizer.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads::test {
namespace {

template <typename T>
class OpExact : public ::testing::Test {
 protected:
  using Tensor = HostTensor<T>;
  using Values = std::vector<T>;
  HostStream stream_;
};
using FloatingTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(OpExact, FloatingTypes);

template <typename T>
constexpr T nan_of = std::numeric_limits<T>::quiet_NaN();

TYPED_TEST(OpExact, GemmOfTwoByThreeAndThreeByTwo) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor a(Shape{2, 3}, {1, 2, 3, 4, 5, 6});
  typename Fixture::Tensor b(Shape{3, 2}, {7, 8, 9, 10, 11, 12});
  typename Fixture::Tensor c(Shape{2, 2}, {1, 1, 1, 1});
  gemm(this->stream_, c.view(), a.view(), false, b.view(), false, "c", 0.5F);
  EXPECT_EQ(c.values, (typename Fixture::Values{29, 32, 69.5, 77}));
  gemm_accumulate(this->stream_, c.view(), a.view(), false, b.view(), false, "c");
  EXPECT_EQ(c.values, (typename Fixture::Values{87, 96, 208.5, 231}));
}

TYPED_TEST(OpExact, GemmRefusesExtentsThatDoNotFit) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor a(Shape{2, 3});
  typename Fixture::Tensor c(Shape{2, 2});
  EXPECT_THROW(gemm(this->stream_, c.view(), a.view(), false, a.view(), false, "c"), InternalError);
}

TYPED_TEST(OpExact, GemmPassesNanAndInfinityOn) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor a(Shape{1, 2}, {0, 1});
  typename Fixture::Tensor b(Shape{2, 1}, {nan_of<TypeParam>, 1});
  typename Fixture::Tensor c(Shape{1, 1});
  gemm(this->stream_, c.view(), a.view(), false, b.view(), false, "c");
  EXPECT_TRUE(std::isnan(c[0]));
}

TYPED_TEST(OpExact, BiasIsAddedToEveryRowAndItsGradientIsTheColumnSum) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor x(Shape{2, 2}, {1, 2, 3, 4});
  typename Fixture::Tensor bias(Shape{2}, {10, 20});
  add_bias(this->stream_, x.view(), bias.view(), "x");
  EXPECT_EQ(x.values, (typename Fixture::Values{11, 22, 13, 24}));
  bias_grad(this->stream_, bias.view(), x.view(), "grad");
  EXPECT_EQ(bias.values, (typename Fixture::Values{34, 66}));
}

TYPED_TEST(OpExact, GradientsOfSeveralBiasesAreTheColumnSumsOfEach) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor x(Shape{2, 2}, {1, 2, 3, 4});
  typename Fixture::Tensor y(Shape{3, 1}, {5, 6, 7});
  typename Fixture::Tensor of_x(Shape{2}, {10, 20});
  typename Fixture::Tensor of_y(Shape{1}, {100});
  bias_grads(this->stream_,
             std::array{BiasGradient{of_x.view(), x.view()}, BiasGradient{of_y.view(), y.view()}},
             "grads");
  EXPECT_EQ(of_x.values, (typename Fixture::Values{14, 26}));
  EXPECT_EQ(of_y.values, (typename Fixture::Values{118}));
}

TYPED_TEST(OpExact, ScaleAndAxpy) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor x(Shape{2}, {1, -2});
  typename Fixture::Tensor y(Shape{2}, {10, 10});
  scale(this->stream_, x.view(), 4.0F, "x");
  EXPECT_EQ(x.values, (typename Fixture::Values{4, -8}));
  axpy(this->stream_, y.view(), -0.5F, x.view(), "y");
  EXPECT_EQ(y.values, (typename Fixture::Values{8, 14}));
}

TYPED_TEST(OpExact, GeluIsTheExactOne) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor x(Shape{3}, {0, 1, -1});
  typename Fixture::Tensor y(Shape{3});
  gelu_forward(this->stream_, y.view(), x.view(), "y");
  EXPECT_EQ(y[0], TypeParam{0});
  EXPECT_NEAR(y[1], 0.8413447460685429, 1e-7);
  EXPECT_NEAR(y[2], -0.15865525393145707, 1e-7);
}

TYPED_TEST(OpExact, LayerNormGivesMeanZeroAndDeviationOne) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor x(Shape{1, 4}, {1, 1, 3, 3});
  typename Fixture::Tensor gamma(Shape{4}, {1, 1, 1, 2});
  typename Fixture::Tensor beta(Shape{4}, {0, 5, 0, 0});
  typename Fixture::Tensor y(Shape{1, 4});
  typename Fixture::Tensor normalised(Shape{1, 4});
  typename Fixture::Tensor deviation(Shape{1});
  layer_norm_forward(this->stream_, y.view(), normalised.view(), deviation.view(), x.view(),
                     gamma.view(), beta.view(), "y");
  const double unit = 1.0 / std::sqrt(1.0 + 1e-5);
  EXPECT_NEAR(deviation[0], unit, 1e-6);
  EXPECT_NEAR(y[0], -unit, 1e-6);
  EXPECT_NEAR(y[1], 5.0 - unit, 1e-6);
  EXPECT_NEAR(y[2], unit, 1e-6);
  EXPECT_NEAR(y[3], 2.0 * unit, 1e-6);
}

TYPED_TEST(OpExact, SoftmaxSeesNoKeyAfterTheQueryWhateverItHolds) {
  using Fixture = OpExact<TypeParam>;
  const TypeParam nan = nan_of<TypeParam>;
  typename Fixture::Tensor scores(Shape{1, 3, 3}, {5, nan, nan, 7, 7, nan, 1, 1, 1});
  typename Fixture::Tensor probabilities(Shape{1, 3, 3});
  causal_softmax_forward(this->stream_, probabilities.view(), scores.view(), 1.0F, "p");
  const std::vector<double> expected{1, 0, 0, 0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(probabilities[i], expected[i], 1e-7) << i;
  }
}

TYPED_TEST(OpExact, SoftmaxOfLargeScoresDoesNotOverflow) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor scores(Shape{1, 2, 2}, {1e30F, 0, 1e30F, 1e30F});
  typename Fixture::Tensor probabilities(Shape{1, 2, 2});
  causal_softmax_forward(this->stream_, probabilities.view(), scores.view(), 1.0F, "p");
  EXPECT_EQ(probabilities.values, (typename Fixture::Values{1, 0, 0.5, 0.5}));
}

TYPED_TEST(OpExact, SplitHeadsTakesThePartOfEachHead) {
  using Fixture = OpExact<TypeParam>;
  // Two positions; query and key of two heads of size one side by side.
  typename Fixture::Tensor rows(Shape{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  typename Fixture::Tensor heads(Shape{2, 2, 1});
  split_heads(this->stream_, heads.view(), rows.view(), 1, 1, 2, "keys");
  EXPECT_EQ(heads.values, (typename Fixture::Values{3, 7, 4, 8}));
}

TYPED_TEST(OpExact, MergeHeadsRefusesTooManyOrNoParts) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor rows(Shape{1, 4});
  typename Fixture::Tensor part(Shape{1, 1, 1});
  const std::vector<TensorView> four(4, part.view());
  EXPECT_THROW(merge_heads(this->stream_, rows.view(), four, 1, "merge"), InternalError);
  EXPECT_THROW(merge_heads(this->stream_, rows.view(), {}, 1, "merge"), InternalError);
}

TYPED_TEST(OpExact, EmbeddingAddsRepeatedTokensInRowOrder) {
  using Fixture = OpExact<TypeParam>;
  HostTensor<std::int32_t> tokens(Shape{4}, std::vector<std::int32_t>{1, 0, 1, 1});
  typename Fixture::Tensor token_table(Shape{2, 1}, {10, 20});
  typename Fixture::Tensor position_table(Shape{2, 1}, {1, 2});
  typename Fixture::Tensor y(Shape{4, 1});
  embedding_forward(this->stream_, y.view(), tokens.view(), token_table.view(),
                    position_table.view(), "y");
  EXPECT_EQ(y.values, (typename Fixture::Values{21, 12, 21, 22}));
  typename Fixture::Tensor grad(Shape{4, 1}, {1, 2, 4, 8});
  embedding_backward(this->stream_, token_table.view(), position_table.view(), tokens.view(),
                     grad.view(), "grads");
  EXPECT_EQ(token_table.values, (typename Fixture::Values{12, 33}));
  EXPECT_EQ(position_table.values, (typename Fixture::Values{6, 12}));
}

TYPED_TEST(OpExact, EmbeddingOfATokenOutsideTheTableReadsRowZero) {
  using Fixture = OpExact<TypeParam>;
  HostTensor<std::int32_t> tokens(Shape{2}, std::vector<std::int32_t>{-1, 2});
  typename Fixture::Tensor token_table(Shape{2, 1}, {10, 20});
  typename Fixture::Tensor position_table(Shape{1, 1}, {0});
  typename Fixture::Tensor y(Shape{2, 1});
  embedding_forward(this->stream_, y.view(), tokens.view(), token_table.view(),
                    position_table.view(), "y");
  EXPECT_EQ(y.values, (typename Fixture::Values{10, 10}));
}

TYPED_TEST(OpExact, LossIsTheMeanOverRowsThatCount) {
  using Fixture = OpExact<TypeParam>;
  HostTensor<std::int32_t> labels(Shape{3}, std::vector<std::int32_t>{0, 1, 1});
  typename Fixture::Tensor logits(Shape{3, 2}, {0, 0, std::log(TypeParam{3}), 0, 9, 1});
  typename Fixture::Tensor mask(Shape{3}, {1, 1, 0});
  typename Fixture::Tensor loss(Shape{});
  typename Fixture::Tensor probabilities(Shape{3, 2});
  cross_entropy_forward(this->stream_, loss.view(), probabilities.view(), logits.view(),
                        labels.view(), mask.view(), "loss");
  EXPECT_NEAR(loss[0], (std::log(2.0) + std::log(4.0)) / 2.0, 1e-6);
  typename Fixture::Tensor grad(Shape{3, 2});
  cross_entropy_backward(this->stream_, grad.view(), probabilities.view(), labels.view(),
                         mask.view(), {}, 0.5F, "grad");
  const std::vector<double> expected{-0.125, 0.125, 0.1875, -0.1875, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(grad[i], expected[i], 1e-7) << i;
}

TYPED_TEST(OpExact, PaddingMayHoldAnythingWithoutReachingTheLoss) {
  using Fixture = OpExact<TypeParam>;
  const TypeParam nan = nan_of<TypeParam>;
  HostTensor<std::int32_t> labels(Shape{2}, std::vector<std::int32_t>{0, -77});
  typename Fixture::Tensor logits(Shape{2, 2}, {0, 0, nan, nan});
  typename Fixture::Tensor mask(Shape{2}, {1, 0});
  typename Fixture::Tensor loss(Shape{});
  typename Fixture::Tensor probabilities(Shape{2, 2});
  typename Fixture::Tensor grad(Shape{2, 2});
  cross_entropy_forward(this->stream_, loss.view(), probabilities.view(), logits.view(),
                        labels.view(), mask.view(), "loss");
  cross_entropy_backward(this->stream_, grad.view(), probabilities.view(), labels.view(),
                         mask.view(), {}, 1.0F, "grad");
  EXPECT_NEAR(loss[0], std::log(2.0), 1e-6);
  EXPECT_EQ(grad.values, (typename Fixture::Values{-0.5, 0.5, 0, 0}));
}

TYPED_TEST(OpExact, APoisonedLossMaskShowsInTheLoss) {
  using Fixture = OpExact<TypeParam>;
  HostTensor<std::int32_t> labels(Shape{1}, std::int32_t{0});
  typename Fixture::Tensor logits(Shape{1, 2});
  typename Fixture::Tensor mask(Shape{1}, {nan_of<TypeParam>});
  typename Fixture::Tensor loss(Shape{});
  typename Fixture::Tensor probabilities(Shape{1, 2});
  cross_entropy_forward(this->stream_, loss.view(), probabilities.view(), logits.view(),
                        labels.view(), mask.view(), "loss");
  EXPECT_TRUE(std::isnan(loss[0]));
}

TYPED_TEST(OpExact, ALossWithoutRowsThatCountIsZeroWithZeroGradient) {
  using Fixture = OpExact<TypeParam>;
  HostTensor<std::int32_t> labels(Shape{1}, std::int32_t{0});
  typename Fixture::Tensor logits(Shape{1, 2});
  typename Fixture::Tensor mask(Shape{1}, {0});
  typename Fixture::Tensor loss(Shape{}, {7});
  typename Fixture::Tensor probabilities(Shape{1, 2});
  typename Fixture::Tensor grad(Shape{1, 2}, {7, 7});
  cross_entropy_forward(this->stream_, loss.view(), probabilities.view(), logits.view(),
                        labels.view(), mask.view(), "loss");
  cross_entropy_backward(this->stream_, grad.view(), probabilities.view(), labels.view(),
                         mask.view(), {}, 1.0F, "grad");
  EXPECT_EQ(loss[0], TypeParam{0});
  EXPECT_EQ(grad.values, (typename Fixture::Values{0, 0}));
}

TYPED_TEST(OpExact, SgdKeepsAVelocity) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor weight(Shape{1}, {10});
  typename Fixture::Tensor velocity(Shape{1}, {4});
  typename Fixture::Tensor grad(Shape{1}, {2});
  typename Fixture::Tensor rate(Shape{}, {0.5});
  sgd_step(this->stream_, weight.view(), velocity.view(), grad.view(), rate.view(), {}, {0.25F},
           "sgd");
  EXPECT_EQ(velocity[0], TypeParam{3});
  EXPECT_EQ(weight[0], TypeParam{8.5});
}

TYPED_TEST(OpExact, AdamsFirstStepMovesByTheLearningRate) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor weight(Shape{2}, {1, 1});
  typename Fixture::Tensor first(Shape{2});
  typename Fixture::Tensor second(Shape{2});
  typename Fixture::Tensor grad(Shape{2}, {0.5, -8});
  typename Fixture::Tensor rate(Shape{}, {0.25});
  HostTensor<std::int64_t> step(Shape{});
  advance_step(this->stream_, step.view(), {}, "step");
  EXPECT_EQ(step[0], 1);
  adam_step(this->stream_, weight.view(), first.view(), second.view(), grad.view(), rate.view(),
            step.view(), {}, {}, "adam");
  EXPECT_NEAR(weight[0], 0.75, 1e-6);
  EXPECT_NEAR(weight[1], 1.25, 1e-6);
  EXPECT_NEAR(first[0], 0.05, 1e-7);
  EXPECT_NEAR(second[1], 3.2, 1e-5);
}

TYPED_TEST(OpExact, DropoutDrawsItsMaskFromTheStateAndAdvancesIt) {
  using Fixture = OpExact<TypeParam>;
  constexpr std::size_t count = 4096;
  constexpr float probability = 0.25F;
  const Shape shape{std::int64_t{count}};
  typename Fixture::Tensor x(shape, TypeParam{3});
  typename Fixture::Tensor y(shape);
  HostTensor<std::uint8_t> mask(shape);
  HostTensor<std::uint64_t> state(Shape{2}, std::vector<std::uint64_t>{17, 40});
  dropout_forward(this->stream_, y.view(), mask.view(), state.view(), x.view(), probability, 2,
                  "y");
  EXPECT_EQ(state.values, (std::vector<std::uint64_t>{17, 42}));
  for (std::size_t i = 0; i < count; ++i) {
    const double drawn = uniform(philox(17, 40, i / 4)[i % 4]);
    ASSERT_EQ(mask[i], drawn >= double{probability} ? 1 : 0) << i;
    ASSERT_EQ(y[i], mask[i] == 1 ? TypeParam{3} / TypeParam{0.75} : TypeParam{0}) << i;
  }
  const auto kept = std::accumulate(mask.values.begin(), mask.values.end(), 0);
  EXPECT_NEAR(kept, 0.75 * count, 5.0 * std::sqrt(count * 0.25 * 0.75));

  HostTensor<std::uint8_t> next(shape);
  dropout_forward(this->stream_, y.view(), next.view(), state.view(), x.view(), probability, 1,
                  "y");
  EXPECT_NE(next.values, mask.values);
}

TYPED_TEST(OpExact, DropoutByValueIgnoresTheOffsetOfTheDeviceAndLeavesIt) {
  using Fixture = OpExact<TypeParam>;
  const Shape shape{64};
  typename Fixture::Tensor x(shape, TypeParam{1});
  typename Fixture::Tensor y(shape);
  HostTensor<std::uint8_t> expected(shape);
  HostTensor<std::uint64_t> state(Shape{2}, std::vector<std::uint64_t>{17, 40});
  dropout_forward(this->stream_, y.view(), expected.view(), state.view(), x.view(), 0.5F, 1, "y");
  HostTensor<std::uint8_t> mask(shape);
  dropout_by_value(this->stream_, y.view(), mask.view(), state.view(), x.view(), 0.5F, 40, "y");
  EXPECT_EQ(mask.values, expected.values);
  EXPECT_EQ(state[1], 41U);
}

TYPED_TEST(OpExact, NormalFillHasItsMeanAndDeviationAndDependsOnSeedAndOffset) {
  using Fixture = OpExact<TypeParam>;
  constexpr std::size_t count = 10000;
  typename Fixture::Tensor x(Shape{std::int64_t{count}});
  fill_normal(this->stream_, x.view(), {3, 4, 0.5F, 2.0F}, "x");
  double sum = 0.0;
  double squares = 0.0;
  for (const TypeParam value : x.values) {
    sum += double{value};
    squares += (double{value} - 2.0) * (double{value} - 2.0);
  }
  EXPECT_NEAR(sum / count, 2.0, 0.025);
  EXPECT_NEAR(std::sqrt(squares / count), 0.5, 0.025);
  for (const FillNormalParams& other :
       {FillNormalParams{4, 4, 0.5F, 2.0F}, FillNormalParams{3, 5, 0.5F, 2.0F}}) {
    typename Fixture::Tensor y(x.shape);
    fill_normal(this->stream_, y.view(), other, "y");
    EXPECT_NE(y.values, x.values);
  }
}

TYPED_TEST(OpExact, UniformFillStaysInsideItsRangeAndCoversIt) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor x(Shape{10000});
  fill_uniform(this->stream_, x.view(), {3, 4, -1.0F, 3.0F}, "x");
  const auto [low, high] = std::minmax_element(x.values.begin(), x.values.end());
  EXPECT_GE(*low, TypeParam{-1});
  EXPECT_LT(*low, TypeParam(-0.99));
  EXPECT_LT(*high, TypeParam{3});
  EXPECT_GT(*high, TypeParam(2.99));
}

TYPED_TEST(OpExact, PoisonIsNan) {
  using Fixture = OpExact<TypeParam>;
  typename Fixture::Tensor x(Shape{5}, TypeParam{1});
  poison(this->stream_, x.view(), "x");
  for (const TypeParam value : x.values) EXPECT_TRUE(std::isnan(value));
}

TEST(OpExactIntegers, TokensCoverTheVocabularyAndNothingElse) {
  HostStream stream;
  HostTensor<std::int32_t> tokens(Shape{1000}, std::int32_t{-1});
  fill_tokens(stream, tokens.view(), {1, 2, 7}, "tokens");
  const auto [low, high] = std::minmax_element(tokens.values.begin(), tokens.values.end());
  EXPECT_EQ(*low, 0);
  EXPECT_EQ(*high, 6);
  EXPECT_THROW(fill_tokens(stream, tokens.view(), {1, 2, 0}, "tokens"), InternalError);
}

TEST(OpExactIntegers, PoisonedIntegersAreNoIndices) {
  HostStream stream;
  HostTensor<std::int32_t> tokens(Shape{3}, std::int32_t{1});
  poison(stream, tokens.view(), "tokens");
  for (const std::int32_t token : tokens.values) EXPECT_LT(token, 0);
}

}  // namespace
}  // namespace cgconform::workloads::test
