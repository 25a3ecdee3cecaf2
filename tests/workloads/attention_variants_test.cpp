#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/host_stream.hpp"
#include "tests/workloads/host_tensor.hpp"
#include "workloads/ops/attention.hpp"
#include "workloads/ops/head_groups.hpp"
#include "workloads/ops/packed_attention.hpp"

namespace cgconform::workloads::test {
namespace {

using Tensor = HostTensor<double>;

/// Each test runs over random small shapes; the seed is the shape's reproducer.
class AttentionVariantOps : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  std::int64_t extent(std::int64_t smallest, std::int64_t largest) {
    return random_extent(random_, smallest, largest);
  }
  Tensor tensor(const Shape& shape) { return random_tensor<double>(random_, shape); }
  /// Rising borders of packed sequences for each row, padded with the length.
  HostTensor<std::int32_t> borders(std::int64_t sequences, std::int64_t length) {
    constexpr std::int64_t entries = 4;
    HostTensor<std::int32_t> result(Shape{sequences, entries});
    for (std::int64_t row = 0; row < sequences; ++row) {
      std::int64_t last = 0;
      for (std::int64_t i = 1; i < entries; ++i) {
        last = std::min(length, last + extent(1, 3));
        result[static_cast<std::size_t>(row * entries + i)] = static_cast<std::int32_t>(last);
      }
    }
    return result;
  }

  Random random_{GetParam()};
  HostStream stream_;
};
INSTANTIATE_TEST_SUITE_P(RandomShapes, AttentionVariantOps, ::testing::Range<std::uint64_t>(0, 6));

TEST_P(AttentionVariantOps, PackedSoftmaxHasTheGradientOfTheCausalOne) {
  const std::int64_t length = extent(1, 6);
  const std::int64_t sequences = extent(1, 2);
  const Shape shape{sequences * extent(1, 2), length, length};
  constexpr float scale = 0.5F;
  HostTensor<std::int32_t> cu_seqlens = borders(sequences, length);
  Tensor scores = tensor(shape);
  Tensor probabilities(shape);
  Tensor weights = tensor(shape);
  const auto loss = [&] {
    packed_softmax_forward(stream_, probabilities.view(), scores.view(), cu_seqlens.view(), scale,
                           "probabilities");
    return dot(probabilities, weights);
  };
  loss();
  Tensor grad_scores(shape);
  causal_softmax_backward(stream_, grad_scores.view(), weights.view(), probabilities.view(), scale,
                          "grad_scores");
  expect_gradient(loss, scores, grad_scores, "scores");
}

TEST_P(AttentionVariantOps, PackedSoftmaxLooksAtItsOwnSequenceOnly) {
  const std::int64_t length = extent(2, 6);
  const std::int64_t sequences = extent(1, 2);
  const std::int64_t heads = extent(1, 2);
  const Shape shape{sequences * heads, length, length};
  HostTensor<std::int32_t> cu_seqlens = borders(sequences, length);
  Tensor scores = tensor(shape);
  Tensor probabilities(shape);
  packed_softmax_forward(stream_, probabilities.view(), scores.view(), cu_seqlens.view(), 1.0F,
                         "probabilities");
  for (std::int64_t row = 0; row < shape[0] * length; ++row) {
    const std::int64_t query = row % length;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t border =
          cu_seqlens[static_cast<std::size_t>(row / length / heads) * 4 + i];
      if (border <= query) first = border;
    }
    double sum = 0.0;
    for (std::int64_t key = 0; key < length; ++key) {
      const double value = probabilities[static_cast<std::size_t>(row * length + key)];
      sum += value;
      EXPECT_EQ(value > 0.0, key >= first && key <= query) << "row " << row << " key " << key;
    }
    EXPECT_NEAR(sum, 1.0, 1e-12);
  }
}

TEST_P(AttentionVariantOps, OnePackedSequenceIsTheCausalSoftmax) {
  const std::int64_t length = extent(1, 6);
  const Shape shape{2, length, length};
  HostTensor<std::int32_t> cu_seqlens(Shape{1, 4}, static_cast<std::int32_t>(length));
  cu_seqlens[0] = 0;
  Tensor scores = tensor(shape);
  Tensor packed(shape);
  Tensor causal(shape);
  packed_softmax_forward(stream_, packed.view(), scores.view(), cu_seqlens.view(), 0.5F, "packed");
  causal_softmax_forward(stream_, causal.view(), scores.view(), 0.5F, "causal");
  for (std::size_t i = 0; i < packed.values.size(); ++i) {
    EXPECT_NEAR(packed[i], causal[i], 1e-15);
  }
}

TEST_P(AttentionVariantOps, MergingHeadGroupsIsTheGradientOfTakingThem) {
  const auto sequences = static_cast<std::int32_t>(extent(1, 2));
  const auto length = static_cast<std::int32_t>(extent(1, 3));
  const auto groups = static_cast<std::int32_t>(extent(1, 2));
  const auto repeat = static_cast<std::int32_t>(extent(1, 3));
  const auto size = static_cast<std::int32_t>(extent(1, 3));
  const std::int32_t heads = groups * repeat;
  const Shape per_head{std::int64_t{sequences} * heads, length, size};
  Tensor rows =
      tensor(Shape{std::int64_t{sequences} * length, std::int64_t{heads + 2 * groups} * size});
  std::vector<Tensor> taken(3, Tensor(per_head));
  std::vector<Tensor> weights{tensor(per_head), tensor(per_head), tensor(per_head)};
  const std::int32_t first_columns[]{0, heads * size, (heads + groups) * size};
  const auto loss = [&] {
    double sum = 0.0;
    for (std::size_t part = 0; part < 3; ++part) {
      take_heads(stream_, taken[part].view(), rows.view(), sequences, first_columns[part],
                 part == 0 ? 1 : repeat, "take");
      sum += dot(taken[part], weights[part]);
    }
    return sum;
  };
  Tensor grad_rows(rows.shape);
  merge_head_groups(stream_, grad_rows.view(),
                    {weights[0].view(), weights[1].view(), weights[2].view()}, sequences, repeat,
                    "merge");
  expect_gradient(loss, rows, grad_rows, "rows");
}

TEST_P(AttentionVariantOps, HeadsOfOneGroupAreAlike) {
  const Shape per_head{4, 2, 3};
  Tensor rows = tensor(Shape{2, 6});
  Tensor heads(per_head);
  take_heads(stream_, heads.view(), rows.view(), 1, 0, 2, "take");
  const std::size_t one = std::size_t{2} * 3;
  for (std::size_t i = 0; i < one; ++i) {
    EXPECT_EQ(heads[i], heads[one + i]);
    EXPECT_EQ(heads[2 * one + i], heads[3 * one + i]);
  }
  EXPECT_NE(heads[0], heads[2 * one]);
}

}  // namespace
}  // namespace cgconform::workloads::test
