#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/router.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads::cuda {

namespace {

constexpr int words_a_draw = 4;

__device__ bool is_chosen(const std::int32_t* chosen, std::int64_t taken, std::int32_t expert) {
  for (std::int64_t i = 0; i < taken; ++i) {
    if (chosen[i] == expert) return true;
  }
  return false;
}

/// The expert with the largest score plus bias that is not among the first `taken` of `chosen`.
template <typename T>
__device__ std::int32_t best_expert(const T* scores, const T* bias, std::int64_t count,
                                    const std::int32_t* chosen, std::int64_t taken) {
  std::int32_t best = -1;
  Arithmetic<T> largest = 0;
  for (std::int32_t expert = 0; expert < count; ++expert) {
    if (is_chosen(chosen, taken, expert)) continue;
    Arithmetic<T> value = widened(scores[expert]);
    if (bias != nullptr) value += widened(bias[expert]);
    if (best >= 0 && !(value > largest)) continue;
    best = expert;
    largest = value;
  }
  return best;
}

template <typename T>
void top_k_router_forward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const std::int64_t count = extent(call, 3, 1);
  const std::int64_t top_k = extent(call, 1, 1);
  T* probabilities = elements<T>(call, 0);
  auto* chosen = elements<std::int32_t>(call, 1);
  T* all_scores = elements<T>(call, 2);
  const T* all_logits = elements<T>(call, 3);
  const T* bias = elements<T>(call, 4);
  for_each(extent(call, 3, 0), context, [=] __device__(std::int64_t token) {
    const T* logits = all_logits + token * count;
    T* scores = all_scores + token * count;
    A largest = widened(logits[0]);
    for (std::int64_t i = 1; i < count; ++i) largest = larger(largest, widened(logits[i]));
    A sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += exp(widened(logits[i]) - largest);
    for (std::int64_t i = 0; i < count; ++i) {
      scores[i] = narrowed<T>(exp(widened(logits[i]) - largest) / sum);
    }
    std::int32_t* experts = chosen + token * top_k;
    for (std::int64_t i = 0; i < top_k; ++i) {
      experts[i] = best_expert(scores, bias, count, experts, i);
      probabilities[token * top_k + i] = scores[experts[i]];
    }
  });
}

template <typename T>
void top_k_router_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const A balance = A(call.params.as<BalanceParams>().scale);
  const std::int64_t count = extent(call, 3, 1);
  const std::int64_t top_k = extent(call, 2, 1);
  T* grad_logits = elements<T>(call, 0);
  const A* grad_probabilities = elements<A>(call, 1);
  const auto* chosen = elements<std::int32_t>(call, 2);
  const A* all_scores = elements<A>(call, 3);
  const auto* load = elements<std::int32_t>(call, 4);
  const A* loss_scale = elements<A>(call, 5);
  for_each(extent(call, 3, 0), context, [=] __device__(std::int64_t token) {
    const A scale = loss_scale == nullptr ? balance : balance * *loss_scale;
    const A* scores = all_scores + token * count;
    const auto grad_score = [&](std::int64_t expert) {
      A sum = scale * A(load[expert]);
      for (std::int64_t i = token * top_k; i < (token + 1) * top_k; ++i) {
        if (chosen[i] == expert) sum += grad_probabilities[i];
      }
      return sum;
    };
    A dot = 0;
    for (std::int64_t i = 0; i < count; ++i) dot += grad_score(i) * scores[i];
    for (std::int64_t i = 0; i < count; ++i) {
      grad_logits[token * count + i] = narrowed<T>(scores[i] * (grad_score(i) - dot));
    }
  });
}

template <typename T>
void load_balancing_loss_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const A scale = A(call.params.as<BalanceParams>().scale);
  const std::int64_t all = call.operand(2).elements();
  const std::int64_t count = extent(call, 2, 1);
  T* loss = elements<T>(call, 0);
  const auto* load = elements<std::int32_t>(call, 1);
  const T* scores = elements<T>(call, 2);
  for_each_row(1, context, [=] __device__(std::int64_t) {
    A sum = 0;
    for (std::int64_t i = threadIdx.x; i < all; i += blockDim.x) {
      sum += A(load[i % count]) * widened(scores[i]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *loss = narrowed<T>(scale * sum);
  });
}

template <typename T>
void load_gradient_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const auto params = call.params.as<BalanceParams>();
  T* grad_bias = elements<T>(call, 0);
  const auto* load = elements<std::int32_t>(call, 1);
  const T* loss_scale = elements<T>(call, 2);
  for_each(extent(call, 0, 0), context, [=] __device__(std::int64_t i) {
    const A scale =
        loss_scale == nullptr ? A(params.scale) : A(params.scale) * widened(*loss_scale);
    const A excess = A(load[i]) - A(params.expected_load);
    grad_bias[i] = narrowed<T>(widened(grad_bias[i]) + scale * excess);
  });
}

template <typename T>
void jitter_forward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const double range = call.params.as<JitterParams>().range;
  T* output = elements<T>(call, 0);
  T* noise = elements<T>(call, 1);
  const auto* seed_and_offset = elements<std::uint64_t>(call, 2);
  const T* x = elements<T>(call, 3);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const auto index = static_cast<std::uint64_t>(i);
    const std::uint32_t word =
        philox(seed_and_offset[0], seed_and_offset[1], index / words_a_draw)[index % words_a_draw];
    const A factor = A(1.0 - range + 2.0 * range * uniform(word));
    noise[i] = narrowed<T>(factor);
    output[i] = narrowed<T>(widened(x[i]) * factor);
  });
}

template <typename T>
void multiply_of(const OpCall& call, const LaunchContext& context) {
  T* product = elements<T>(call, 0);
  const T* a = elements<T>(call, 1);
  const T* b = elements<T>(call, 2);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    product[i] = narrowed<T>(widened(a[i]) * widened(b[i]));
  });
}

}  // namespace

void top_k_router_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 3, CGCONFORM_FLOATING_KERNELS(top_k_router_forward_of));
}

void top_k_router_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(top_k_router_backward_of));
}

void count_load(const OpCall& call, const LaunchContext& context) {
  const std::int64_t places = call.operand(1).elements();
  auto* load = elements<std::int32_t>(call, 0);
  const auto* experts = elements<std::int32_t>(call, 1);
  for_each_row(extent(call, 0, 0), context, [=] __device__(std::int64_t expert) {
    std::int32_t count = 0;
    for (std::int64_t place = threadIdx.x; place < places; place += blockDim.x) {
      if (experts[place] == expert) ++count;
    }
    count = block_sum(count);
    if (threadIdx.x == 0) load[expert] = count;
  });
}

void load_balancing_loss(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 2, CGCONFORM_FLOATING_KERNELS(load_balancing_loss_of));
}

void load_gradient(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(load_gradient_of));
}

void jitter_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(jitter_forward_of));
  auto* seed_and_offset = elements<std::uint64_t>(call, 2);
  const std::uint64_t advance = call.params.as<JitterParams>().advance;
  for_each(1, context, [=] __device__(std::int64_t) { seed_and_offset[1] += advance; });
}

void multiply(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(multiply_of));
}

}  // namespace cgconform::workloads::cuda
