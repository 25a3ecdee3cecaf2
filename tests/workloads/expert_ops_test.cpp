#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/host_stream.hpp"
#include "tests/workloads/host_tensor.hpp"
#include "workloads/ops/expert_rows.hpp"
#include "workloads/ops/router.hpp"

namespace cgconform::workloads::test {
namespace {

using Tensor = HostTensor<double>;
using Indices = HostTensor<std::int32_t>;

/// A routing of random size; the seed is the reproducer.
class ExpertOps : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  ExpertOps() {
    tokens_ = random_extent(random_, 1, 7);
    count_ = random_extent(random_, 2, 5);
    top_k_ = random_extent(random_, 1, count_);
    hidden_ = random_extent(random_, 1, 5);
    logits_ = random_tensor<double>(random_, Shape{tokens_, count_});
    scores_ = Tensor(logits_.shape);
    probabilities_ = Tensor(Shape{tokens_, top_k_});
    experts_ = Indices(Shape{tokens_, top_k_});
    load_ = Indices(Shape{count_});
    slots_ = Indices(experts_.shape);
    overflow_ = Indices(load_.shape);
  }

  void route() {
    top_k_router_forward(stream_, probabilities_.view(), experts_.view(), scores_.view(),
                         logits_.view(), {}, "route");
    count_load(stream_, load_.view(), experts_.view(), "load");
  }
  void assign(std::int32_t capacity) {
    sources_ = Indices(Shape{capacity > 0 ? count_ * capacity : tokens_ * top_k_});
    assign_slots(stream_, slots_.view(), sources_.view(), overflow_.view(), experts_.view(),
                 load_.view(), capacity, "slots");
  }
  Tensor tensor(const Shape& shape) { return random_tensor<double>(random_, shape); }
  Shape row_shape() const { return {sources_.shape[0], hidden_}; }
  Shape token_shape() const { return {tokens_, hidden_}; }

  Random random_{GetParam()};
  HostStream stream_;
  std::int64_t tokens_ = 1;
  std::int64_t count_ = 1;
  std::int64_t top_k_ = 1;
  std::int64_t hidden_ = 1;
  Tensor logits_{Shape{1}};
  Tensor scores_{Shape{1}};
  Tensor probabilities_{Shape{1}};
  Indices experts_{Shape{1}};
  Indices load_{Shape{1}};
  Indices slots_{Shape{1}};
  Indices sources_{Shape{1}};
  Indices overflow_{Shape{1}};
};
INSTANTIATE_TEST_SUITE_P(RandomShapes, ExpertOps, ::testing::Range<std::uint64_t>(0, 10));

TEST_P(ExpertOps, RouteEachTokenToItsLargestScores) {
  route();
  for (std::int64_t token = 0; token < tokens_; ++token) {
    const auto row = static_cast<std::size_t>(token * count_);
    std::vector<double> scores(scores_.values.begin() + static_cast<std::ptrdiff_t>(row),
                               scores_.values.begin() + static_cast<std::ptrdiff_t>(row) + count_);
    EXPECT_NEAR(std::accumulate(scores.begin(), scores.end(), 0.0), 1.0, 1e-12);
    for (std::int64_t i = 0; i < top_k_; ++i) {
      const auto place = static_cast<std::size_t>(token * top_k_ + i);
      const auto largest = std::max_element(scores.begin(), scores.end());
      EXPECT_EQ(experts_[place], largest - scores.begin());
      EXPECT_EQ(probabilities_[place], *largest);
      *largest = -1.0;
    }
  }
  EXPECT_EQ(std::accumulate(load_.values.begin(), load_.values.end(), 0), tokens_ * top_k_);
}

TEST_P(ExpertOps, LetTheBiasChooseButNotWeigh) {
  Tensor bias(Shape{count_});
  bias[static_cast<std::size_t>(count_ - 1)] = 10.0;
  top_k_router_forward(stream_, probabilities_.view(), experts_.view(), scores_.view(),
                       logits_.view(), bias.view(), "route");
  for (std::int64_t token = 0; token < tokens_; ++token) {
    const auto place = static_cast<std::size_t>(token * top_k_);
    EXPECT_EQ(experts_[place], count_ - 1);
    EXPECT_EQ(probabilities_[place], scores_[static_cast<std::size_t>((token + 1) * count_ - 1)]);
  }
}

TEST_P(ExpertOps, GiveTheGradientOfProbabilitiesAndOfTheBalancingLoss) {
  constexpr float scale = 0.25F;
  Tensor weights = tensor(probabilities_.shape);
  Tensor balance(Shape{1});
  Tensor loss_scale(Shape{1}, 3.0);
  route();
  const std::vector<std::int32_t> chosen = experts_.values;
  const auto loss = [&] {
    route();
    EXPECT_EQ(experts_.values, chosen) << "too near a tie for differences";
    load_balancing_loss(stream_, balance.view(), load_.view(), scores_.view(), scale, "balance");
    return dot(probabilities_, weights) + 3.0 * balance[0];
  };
  loss();
  Tensor grad_logits(logits_.shape);
  top_k_router_backward(stream_, grad_logits.view(), weights.view(), experts_.view(),
                        scores_.view(), load_.view(), loss_scale.view(), scale, "backward");
  expect_gradient(loss, logits_, grad_logits, "logits");
}

TEST_P(ExpertOps, GiveEveryPlaceARowOfItsExpertOrCountItAsOverflow) {
  route();
  for (const std::int32_t capacity : {0, 1, 2}) {
    assign(capacity);
    std::int32_t kept = 0;
    for (std::size_t place = 0; place < slots_.size(); ++place) {
      if (slots_[place] < 0) continue;
      ++kept;
      EXPECT_EQ(sources_[static_cast<std::size_t>(slots_[place])],
                static_cast<std::int32_t>(place));
      if (capacity > 0) {
        EXPECT_EQ(slots_[place] / capacity, experts_[place]);
      }
    }
    const std::int32_t dropped =
        std::accumulate(overflow_.values.begin(), overflow_.values.end(), 0);
    EXPECT_EQ(kept + dropped, tokens_ * top_k_);
    if (capacity == 0) {
      EXPECT_EQ(dropped, 0);
    }
    for (std::size_t expert = 0; expert < load_.size(); ++expert) {
      const std::int32_t excess = capacity > 0 ? std::max(load_[expert] - capacity, 0) : 0;
      EXPECT_EQ(overflow_[expert], excess);
    }
    const auto filled = std::count_if(sources_.values.begin(), sources_.values.end(),
                                      [](std::int32_t source) { return source >= 0; });
    EXPECT_EQ(filled, kept) << "padding has a source";
  }
}

TEST_P(ExpertOps, CombineIsTheGradientOfDispatchAndTheReverse) {
  route();
  for (const std::int32_t capacity : {0, 1, 2}) {
    assign(capacity);
    Tensor x = tensor(token_shape());
    Tensor rows(row_shape());
    Tensor row_weights = tensor(row_shape());
    const auto dispatch_loss = [&] {
      dispatch_rows(stream_, rows.view(), x.view(), sources_.view(), {},
                    static_cast<std::int32_t>(top_k_), "dispatch");
      return dot(rows, row_weights);
    };
    Tensor grad_x(x.shape);
    combine_rows(stream_, grad_x.view(), row_weights.view(), slots_.view(), {}, "combine");
    expect_gradient(dispatch_loss, x, grad_x, "x");

    Tensor worked = tensor(row_shape());
    Tensor output(token_shape());
    Tensor weights = tensor(token_shape());
    const auto combine_loss = [&] {
      combine_rows(stream_, output.view(), worked.view(), slots_.view(), probabilities_.view(),
                   "combine");
      return dot(output, weights);
    };
    Tensor grad_rows(row_shape());
    Tensor grad_probabilities(probabilities_.shape);
    dispatch_rows(stream_, grad_rows.view(), weights.view(), sources_.view(), probabilities_.view(),
                  static_cast<std::int32_t>(top_k_), "rows backward");
    combine_weights_backward(stream_, grad_probabilities.view(), weights.view(), worked.view(),
                             slots_.view(), "weights backward");
    expect_gradient(combine_loss, worked, grad_rows, "rows");
    expect_gradient(combine_loss, probabilities_, grad_probabilities, "probabilities");
  }
}

TEST_P(ExpertOps, LetABiasFollowTheExcessOfLoad) {
  route();
  Tensor grad = tensor(Shape{count_});
  const std::vector<double> before = grad.values;
  load_gradient(stream_, grad.view(), load_.view(), {}, {0.5F, 2.0F}, "load");
  for (std::size_t i = 0; i < grad.size(); ++i) {
    EXPECT_EQ(grad[i], before[i] + 0.5 * (load_[i] - 2.0));
  }
}

TEST_P(ExpertOps, JitterWithinItsRangeAndAdvanceTheState) {
  Tensor x = tensor(token_shape());
  Tensor output(x.shape);
  Tensor noise(x.shape);
  HostTensor<std::uint64_t> state(Shape{2}, std::vector<std::uint64_t>{GetParam(), 4});
  jitter_forward(stream_, output.view(), noise.view(), state.view(), x.view(), {0.25F}, "jitter");
  EXPECT_EQ(state[1], 5U);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_GE(noise[i], 0.75);
    EXPECT_LT(noise[i], 1.25);
    EXPECT_EQ(output[i], x[i] * noise[i]);
  }
  Tensor again(x.shape);
  jitter_forward(stream_, again.view(), noise.view(), state.view(), x.view(), {0.25F}, "jitter");
  EXPECT_NE(again.values, output.values);
}

}  // namespace
}  // namespace cgconform::workloads::test
