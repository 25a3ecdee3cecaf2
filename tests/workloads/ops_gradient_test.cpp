#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/host_stream.hpp"
#include "tests/workloads/host_tensor.hpp"
#include "workloads/ops/attention.hpp"
#include "workloads/ops/dropout.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/embedding_and_loss.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/ops/layer_norm.hpp"

namespace cgconform::workloads::test {
namespace {

using Tensor = HostTensor<double>;

/// Each test runs over random small shapes; the seed is the shape's reproducer.
class OpGradient : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  std::int64_t extent(std::int64_t smallest = 1, std::int64_t largest = 5) {
    return random_extent(random_, smallest, largest);
  }
  Tensor tensor(const Shape& shape) { return random_tensor<double>(random_, shape); }

  Random random_{GetParam()};
  HostStream stream_;
};
INSTANTIATE_TEST_SUITE_P(RandomShapes, OpGradient, ::testing::Range<std::uint64_t>(0, 8));

TEST_P(OpGradient, OfGemmIsAGemmInEveryTransposition) {
  const std::int64_t batch = extent(1, 3);
  const std::int64_t m = extent();
  const std::int64_t n = extent();
  const std::int64_t k = extent();
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << "transpose_a " << transpose_a << " transpose_b " << transpose_b);
      Tensor a = tensor(transpose_a ? Shape{batch, k, m} : Shape{batch, m, k});
      Tensor b = tensor(transpose_b ? Shape{batch, n, k} : Shape{batch, k, n});
      Tensor c(Shape{batch, m, n});
      const Tensor weights = tensor(c.shape);
      const auto loss = [&] {
        gemm(stream_, c.view(), a.view(), transpose_a, b.view(), transpose_b, "c", 0.5F);
        return dot(c, weights);
      };
      Tensor grad_c = weights;
      Tensor grad_a(a.shape);
      Tensor grad_b(b.shape);
      if (transpose_a) {
        gemm(stream_, grad_a.view(), b.view(), transpose_b, grad_c.view(), true, "grad_a", 0.5F);
      } else {
        gemm(stream_, grad_a.view(), grad_c.view(), false, b.view(), !transpose_b, "grad_a", 0.5F);
      }
      if (transpose_b) {
        gemm(stream_, grad_b.view(), grad_c.view(), true, a.view(), transpose_a, "grad_b", 0.5F);
      } else {
        gemm(stream_, grad_b.view(), a.view(), !transpose_a, grad_c.view(), false, "grad_b", 0.5F);
      }
      expect_gradient(loss, a, grad_a, "a");
      expect_gradient(loss, b, grad_b, "b");
    }
  }
}

TEST_P(OpGradient, OfBiasIsItsColumnSum) {
  const Shape shape{extent(), extent()};
  const Tensor x = tensor(shape);
  Tensor bias = tensor(Shape{shape[1]});
  Tensor weights = tensor(shape);
  const auto loss = [&] {
    Tensor y = x;
    add_bias(stream_, y.view(), bias.view(), "y");
    return dot(y, weights);
  };
  Tensor grad_bias(bias.shape);
  bias_grad(stream_, grad_bias.view(), weights.view(), "grad_bias");
  expect_gradient(loss, bias, grad_bias, "bias");
}

TEST_P(OpGradient, OfGelu) {
  const Shape shape{extent(), extent()};
  Tensor x = tensor(shape);
  Tensor y(shape);
  Tensor weights = tensor(shape);
  const auto loss = [&] {
    gelu_forward(stream_, y.view(), x.view(), "y");
    return dot(y, weights);
  };
  Tensor grad_x(shape);
  gelu_backward(stream_, grad_x.view(), weights.view(), x.view(), "grad_x");
  expect_gradient(loss, x, grad_x, "x");
}

TEST_P(OpGradient, OfLayerNorm) {
  const Shape shape{extent(), extent(2, 6)};
  Tensor x = tensor(shape);
  Tensor gamma = tensor(Shape{shape[1]});
  Tensor beta = tensor(Shape{shape[1]});
  Tensor y(shape);
  Tensor normalised(shape);
  Tensor deviation(Shape{shape[0]});
  Tensor weights = tensor(shape);
  const auto loss = [&] {
    layer_norm_forward(stream_, y.view(), normalised.view(), deviation.view(), x.view(),
                       gamma.view(), beta.view(), "y");
    return dot(y, weights);
  };
  loss();
  Tensor grad_x(shape);
  Tensor grad_gamma(gamma.shape);
  Tensor grad_beta(beta.shape);
  layer_norm_backward(stream_, grad_x.view(), grad_gamma.view(), grad_beta.view(), weights.view(),
                      normalised.view(), deviation.view(), gamma.view(), "grads");
  expect_gradient(loss, x, grad_x, "x");
  expect_gradient(loss, gamma, grad_gamma, "gamma");
  expect_gradient(loss, beta, grad_beta, "beta");
}

TEST_P(OpGradient, OfCausalSoftmax) {
  const std::int64_t length = extent(1, 6);
  const Shape shape{extent(1, 3), length, length};
  constexpr float scale = 0.5F;
  Tensor scores = tensor(shape);
  Tensor probabilities(shape);
  Tensor weights = tensor(shape);
  const auto loss = [&] {
    causal_softmax_forward(stream_, probabilities.view(), scores.view(), scale, "probabilities");
    return dot(probabilities, weights);
  };
  loss();
  Tensor grad_scores(shape);
  causal_softmax_backward(stream_, grad_scores.view(), weights.view(), probabilities.view(), scale,
                          "grad_scores");
  expect_gradient(loss, scores, grad_scores, "scores");
}

TEST_P(OpGradient, OfSplitHeadsIsMergeHeadsAndTheReverse) {
  const std::int64_t sequences = extent(1, 3);
  const std::int64_t heads = extent(1, 3);
  const std::int64_t length = extent(1, 4);
  const std::int64_t size = extent(1, 4);
  constexpr std::int32_t parts = 3;
  const auto batch = static_cast<std::int32_t>(sequences);
  const Shape rows_shape{sequences * length, parts * heads * size};
  const Shape heads_shape{sequences * heads, length, size};
  std::vector<Tensor> split(parts, Tensor(heads_shape));
  std::vector<Tensor> weights;
  weights.reserve(split.size());
  for (std::int32_t part = 0; part < parts; ++part) weights.push_back(tensor(heads_shape));
  const auto views = [](std::vector<Tensor>& tensors) {
    std::vector<TensorView> result;
    result.reserve(tensors.size());
    for (Tensor& one : tensors) result.push_back(one.view());
    return result;
  };

  Tensor rows = tensor(rows_shape);
  const auto split_loss = [&] {
    double sum = 0.0;
    for (std::int32_t part = 0; part < parts; ++part) {
      Tensor& heads_of_part = split[static_cast<std::size_t>(part)];
      split_heads(stream_, heads_of_part.view(), rows.view(), batch, part, parts, "split");
      sum += dot(heads_of_part, weights[static_cast<std::size_t>(part)]);
    }
    return sum;
  };
  Tensor grad_rows(rows_shape);
  merge_heads(stream_, grad_rows.view(), views(weights), batch, "merge");
  expect_gradient(split_loss, rows, grad_rows, "rows");

  Tensor merged(rows_shape);
  Tensor row_weights = tensor(rows_shape);
  const auto merge_loss = [&] {
    merge_heads(stream_, merged.view(), views(split), batch, "merge");
    return dot(merged, row_weights);
  };
  for (std::int32_t part = 0; part < parts; ++part) {
    Tensor grad_split(heads_shape);
    split_heads(stream_, grad_split.view(), row_weights.view(), batch, part, parts, "split");
    expect_gradient(merge_loss, split[static_cast<std::size_t>(part)], grad_split, "heads");
  }
}

TEST_P(OpGradient, OfDropoutUnderOneMask) {
  const Shape shape{extent(2, 6), extent(2, 6)};
  constexpr float probability = 0.25F;
  Tensor x = tensor(shape);
  Tensor y(shape);
  HostTensor<std::uint8_t> mask(shape);
  Tensor weights = tensor(shape);
  const auto loss = [&] {
    HostTensor<std::uint64_t> state(Shape{2}, std::vector<std::uint64_t>{GetParam(), 7});
    dropout_forward(stream_, y.view(), mask.view(), state.view(), x.view(), probability, 1, "y");
    return dot(y, weights);
  };
  loss();
  Tensor grad_x(shape);
  dropout_backward(stream_, grad_x.view(), weights.view(), mask.view(), probability, "grad_x");
  expect_gradient(loss, x, grad_x, "x");
}

TEST_P(OpGradient, OfEmbedding) {
  const std::int64_t length = extent();
  const std::int64_t rows = extent(1, 3) * length;
  const std::int64_t vocabulary = extent();  // smaller than rows at times, so that tokens repeat
  const std::int64_t hidden = extent();
  HostTensor<std::int32_t> tokens = random_indices(random_, rows, vocabulary);
  Tensor token_table = tensor(Shape{vocabulary, hidden});
  Tensor position_table = tensor(Shape{length, hidden});
  Tensor y(Shape{rows, hidden});
  Tensor weights = tensor(y.shape);
  const auto loss = [&] {
    embedding_forward(stream_, y.view(), tokens.view(), token_table.view(), position_table.view(),
                      "y");
    return dot(y, weights);
  };
  Tensor grad_tokens(token_table.shape);
  Tensor grad_positions(position_table.shape);
  embedding_backward(stream_, grad_tokens.view(), grad_positions.view(), tokens.view(),
                     weights.view(), "grads");
  expect_gradient(loss, token_table, grad_tokens, "token_table");
  expect_gradient(loss, position_table, grad_positions, "position_table");
}

TEST_P(OpGradient, OfCrossEntropyUnderAMask) {
  const std::int64_t rows = extent(2, 6);
  const std::int64_t vocabulary = extent(2, 6);
  constexpr float grad_scale = 0.25F;
  Tensor logits = tensor(Shape{rows, vocabulary});
  HostTensor<std::int32_t> labels = random_indices(random_, rows, vocabulary);
  Tensor mask(Shape{rows}, 1.0);
  mask[static_cast<std::size_t>(extent(0, rows - 1))] = 0.0;
  Tensor value(Shape{1});
  Tensor probabilities(logits.shape);
  const auto loss = [&] {
    cross_entropy_forward(stream_, value.view(), probabilities.view(), logits.view(), labels.view(),
                          mask.view(), "loss");
    return value[0] * double{grad_scale};
  };
  loss();
  Tensor grad_logits(logits.shape);
  cross_entropy_backward(stream_, grad_logits.view(), probabilities.view(), labels.view(),
                         mask.view(), {}, grad_scale, "grad_logits");
  expect_gradient(loss, logits, grad_logits, "logits");
}

TEST_P(OpGradient, OfAddAndAccumulateIsTheIdentity) {
  const Shape shape{extent(), extent()};
  Tensor a = tensor(shape);
  Tensor b = tensor(shape);
  Tensor y(shape);
  const Tensor weights = tensor(shape);
  const auto sum_loss = [&] {
    add(stream_, y.view(), a.view(), b.view(), "y");
    return dot(y, weights);
  };
  expect_gradient(sum_loss, a, weights, "a");
  expect_gradient(sum_loss, b, weights, "b");
  const auto accumulate_loss = [&] {
    y = a;
    accumulate(stream_, y.view(), b.view(), "y");
    return dot(y, weights);
  };
  expect_gradient(accumulate_loss, a, weights, "a");
  expect_gradient(accumulate_loss, b, weights, "b");
}

}  // namespace
}  // namespace cgconform::workloads::test
