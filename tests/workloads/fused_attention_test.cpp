#include "workloads/ops/fused_attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/host_stream.hpp"
#include "tests/workloads/model_fixture.hpp"
#include "workloads/layers/self_attention.hpp"
#include "workloads/ops/attention.hpp"
#include "workloads/ops/gemm.hpp"

namespace cgconform::workloads::test {
namespace {

/// Attention of random heads, by one op each way and by the ops that it stands for.
template <typename T>
struct Attention {
  Attention(Random& random, std::int64_t sequences, std::int64_t heads, std::int64_t length,
            std::int64_t size)
      : sequences_of_heads(static_cast<std::int32_t>(sequences)),
        per_head{sequences * heads, length, size},
        per_score{sequences * heads, length, length},
        query(random_tensor<T>(random, per_head)),
        key(random_tensor<T>(random, per_head)),
        value(random_tensor<T>(random, per_head)),
        grad_merged(random_tensor<T>(random, Shape{sequences * length, heads * size})) {}

  AttentionHeadViews heads() { return {query.view(), key.view(), value.view()}; }
  AttendedViews attended() { return {probabilities.view(), merged.view()}; }

  void forward() { fused_attention_forward(stream, attended(), heads(), scale, "forward"); }
  void backward() {
    fused_attention_backward(stream, {grad_query.view(), grad_key.view(), grad_value.view()},
                             grad_merged.view(), attended(), heads(), scale, "backward");
  }
  void forward_by_parts() {
    HostTensor<T> scores(per_score);
    HostTensor<T> context(per_head);
    gemm(stream, scores.view(), query.view(), false, key.view(), true, "scores");
    causal_softmax_forward(stream, probabilities.view(), scores.view(), scale, "probabilities");
    gemm(stream, context.view(), probabilities.view(), false, value.view(), false, "context");
    merge_heads(stream, merged.view(), std::array{context.view()}, sequences_of_heads, "merged");
  }
  void backward_by_parts() {
    HostTensor<T> grad_context(per_head);
    HostTensor<T> grad_probabilities(per_score);
    HostTensor<T> grad_scores(per_score);
    split_heads(stream, grad_context.view(), grad_merged.view(), sequences_of_heads, 0, 1, "grad");
    gemm(stream, grad_value.view(), probabilities.view(), true, grad_context.view(), false, "v");
    gemm(stream, grad_probabilities.view(), grad_context.view(), false, value.view(), true, "p");
    causal_softmax_backward(stream, grad_scores.view(), grad_probabilities.view(),
                            probabilities.view(), scale, "scores");
    gemm(stream, grad_query.view(), grad_scores.view(), false, key.view(), false, "q");
    gemm(stream, grad_key.view(), grad_scores.view(), true, query.view(), false, "k");
  }

  static constexpr float scale = 0.5F;
  std::int32_t sequences_of_heads;
  Shape per_head;
  Shape per_score;
  HostTensor<T> query;
  HostTensor<T> key;
  HostTensor<T> value;
  HostTensor<T> grad_merged;
  HostTensor<T> probabilities{per_score};
  HostTensor<T> merged{grad_merged.shape};
  HostTensor<T> grad_query{per_head};
  HostTensor<T> grad_key{per_head};
  HostTensor<T> grad_value{per_head};
  HostStream stream;
};

class FusedAttention : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  template <typename T>
  Attention<T> attention(std::int64_t longest, std::int64_t largest) {
    const auto extent = [&](std::int64_t last) { return random_extent(random_, 1, last); };
    const std::int64_t sequences = extent(2);
    const std::int64_t heads = extent(3);
    const std::int64_t length = extent(longest);
    return Attention<T>(random_, sequences, heads, length, extent(largest));
  }

  Random random_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(RandomShapes, FusedAttention, ::testing::Range<std::uint64_t>(0, 6));

TEST_P(FusedAttention, HasTheGradientOfFiniteDifferences) {
  auto a = attention<double>(5, 4);
  const auto loss = [&] {
    a.forward();
    return dot(a.merged, a.grad_merged);
  };
  loss();
  a.backward();
  expect_gradient(loss, a.query, a.grad_query, "query");
  expect_gradient(loss, a.key, a.grad_key, "key");
  expect_gradient(loss, a.value, a.grad_value, "value");
}

/// Heads [sequences * heads, length, size] as part `part` of rows [sequences * length, 3 * heads *
/// size].
void expect_part(HostTensor<double>& rows, std::int32_t part, const HostTensor<double>& heads,
                 std::int32_t sequences) {
  HostTensor<double> split(heads.shape);
  HostStream stream;
  split_heads(stream, split.view(), rows.view(), sequences, part, 3, "part");
  EXPECT_EQ(split.values, heads.values) << "part " << part;
}

TEST_P(FusedAttention, DoesTheSameWithHeadsSideBySide) {
  auto a = attention<double>(40, 5);
  const Shape rows_shape{a.grad_merged.shape[0], 3 * a.grad_merged.shape[1]};
  HostTensor<double> rows(rows_shape);
  HostTensor<double> grad_rows(rows_shape);
  merge_heads(a.stream, rows.view(), std::array{a.query.view(), a.key.view(), a.value.view()},
              a.sequences_of_heads, "rows");
  a.forward();
  a.backward();
  const auto apart = std::pair(a.merged.values, a.probabilities.values);
  fused_attention_forward(a.stream, a.attended(), {rows.view(), {}, {}}, a.scale, "forward");
  EXPECT_EQ(std::pair(a.merged.values, a.probabilities.values), apart);
  fused_attention_backward(a.stream, {grad_rows.view(), {}, {}}, a.grad_merged.view(), a.attended(),
                           {rows.view(), {}, {}}, a.scale, "backward");
  expect_part(grad_rows, 0, a.grad_query, a.sequences_of_heads);
  expect_part(grad_rows, 1, a.grad_key, a.sequences_of_heads);
  expect_part(grad_rows, 2, a.grad_value, a.sequences_of_heads);
}

/// The largest difference of two tensors, of the largest element.
template <typename T>
double difference(const HostTensor<T>& one, const HostTensor<T>& other) {
  double largest = 0.0;
  double apart = 0.0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(one[i])));
    apart = std::max(apart, std::abs(static_cast<double>(one[i]) - static_cast<double>(other[i])));
  }
  return apart / largest;
}

/// The ops that it stands for round what lies in between; `allowed` is a few of such roundings.
template <typename T>
void expect_the_parts_results(Attention<T> whole, double allowed) {
  Attention<T> parts = whole;
  whole.forward();
  whole.backward();
  parts.forward_by_parts();
  parts.backward_by_parts();
  EXPECT_LE(difference(whole.probabilities, parts.probabilities), allowed);
  EXPECT_LE(difference(whole.merged, parts.merged), allowed);
  EXPECT_LE(difference(whole.grad_query, parts.grad_query), allowed);
  EXPECT_LE(difference(whole.grad_key, parts.grad_key), allowed);
  EXPECT_LE(difference(whole.grad_value, parts.grad_value), allowed);
}

TEST_P(FusedAttention, AgreesWithTheOpsThatItStandsForInEveryType) {
  expect_the_parts_results(attention<double>(70, 32), 1e-13);
  expect_the_parts_results(attention<float>(70, 64), 1e-5);
  expect_the_parts_results(attention<Float16>(70, 64), 0x1p-7);
  expect_the_parts_results(attention<BFloat16>(70, 64), 0x1p-4);
}

TEST(FusedAttentionOps, SeeNoKeyAfterTheQueryWhateverItHolds) {
  Random random(4);
  Attention<float> a(random, 1, 1, 3, 2);
  a.forward();
  a.backward();
  const auto [merged, grad_query] = std::pair(a.merged.values, a.grad_query.values);
  for (HostTensor<float>* last : {&a.key, &a.value}) (*last)[4] = (*last)[5] = NAN;
  a.forward();
  a.backward();
  for (std::size_t i = 0; i < 4; ++i) {  // those of the first two queries
    EXPECT_EQ(a.merged[i], merged[i]);
    EXPECT_EQ(a.grad_query[i], grad_query[i]);
  }
  EXPECT_TRUE(std::isnan(a.merged[4]));
}

TEST(FusedAttentionOps, RefuseHeadsThatDoNotFitOrAgree) {
  EXPECT_TRUE(fits_fused_attention(DType::bf16, 128, 64));
  EXPECT_TRUE(fits_fused_attention(DType::fp32, 128, 64));
  EXPECT_TRUE(fits_fused_attention(DType::fp64, 64, 32));
  EXPECT_FALSE(fits_fused_attention(DType::fp64, 64, 64)) << "twice the bytes";
  EXPECT_FALSE(fits_fused_attention(DType::bf16, 129, 16));
  EXPECT_FALSE(fits_fused_attention(DType::bf16, 16, 65));
  Random random(4);
  Attention<float> too_long(random, 1, 1, 129, 2);
  EXPECT_THROW(too_long.forward(), InternalError);
  Attention<float> other_keys(random, 1, 1, 4, 2);
  other_keys.key.shape = Shape{1, 2, 4};
  EXPECT_THROW(other_keys.forward(), InternalError);
}

/// The ops of self-attention, forward and backward.
class ListedAttention : public LayerFixture {
 public:
  explicit ListedAttention(float attention_dropout, std::int32_t length = 3, bool packed = false) {
    TransformerShape shape;
    shape.sequences = 2;
    shape.length = length;
    shape.hidden = 8;
    shape.heads = 2;
    shape.attention_dropout = attention_dropout;
    ParameterStore store(allocator, *stream, DType::fp32, 3);
    SelfAttention layer("attn", shape, ModuleParameters{store});
    const Buffer input(allocator, *stream, default_pool, DType::fp32,
                       Shape{shape.tokens(), shape.hidden}, "input");
    const Buffer borders = put(Shape{2, 2}, std::vector<std::int32_t>{0, 1, 0, 2});
    LayerContext called = context(allocator.create_pool("graph"));
    if (packed) called.cu_seqlens = borders.view();
    stream->begin_capture(CaptureMode::relaxed);
    {
      SavedActivations saved;
      const Buffer output = layer.forward(called, input.view(), saved);
      const Buffer grad = layer.backward(called, input.view(), saved);
    }
    graph_ = stream->end_capture();
  }

  bool has(std::string_view op) const {
    return std::any_of(graph_->nodes().begin(), graph_->nodes().end(),
                       [op](const GraphNode& node) { return node.op_name == op; });
  }

 private:
  std::unique_ptr<Graph> graph_;
};

TEST(SelfAttention, IsOneOpEachWayWhereItFitsAndDropsNothing) {
  const ListedAttention small(0.0F);
  EXPECT_TRUE(small.has("fused_attention_forward"));
  EXPECT_TRUE(small.has("fused_attention_backward"));
  EXPECT_FALSE(small.has("causal_softmax_forward"));
  EXPECT_FALSE(small.has("causal_softmax_backward"));
  for (const char* mover : {"split_heads", "split_parts", "merge_heads"}) {
    EXPECT_FALSE(small.has(mover)) << mover;
  }
}

void expect_products_and_a_softmax(const ListedAttention& attention) {
  EXPECT_FALSE(attention.has("fused_attention_forward"));
  EXPECT_FALSE(attention.has("fused_attention_backward"));
  EXPECT_TRUE(attention.has("causal_softmax_forward"));
  EXPECT_TRUE(attention.has("causal_softmax_backward"));
}

TEST(SelfAttention, IsProductsAndASoftmaxWhereItDropsOrDoesNotFit) {
  expect_products_and_a_softmax(ListedAttention(0.5F));
  expect_products_and_a_softmax(ListedAttention(0.0F, 129));
}

TEST(SelfAttention, TellsPackedSequencesApartInASoftmaxOfItsOwn) {
  const ListedAttention packed(0.0F, 3, true);
  EXPECT_TRUE(packed.has("packed_softmax_forward"));
  EXPECT_FALSE(packed.has("fused_attention_forward"));
  EXPECT_TRUE(packed.has("fused_attention_backward"));
}

}  // namespace
}  // namespace cgconform::workloads::test
