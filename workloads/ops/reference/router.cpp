#include "workloads/ops/router.hpp"

#include <algorithm>
#include <cmath>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads::reference {

namespace {

/// The expert with the largest score plus bias that is not among the first `taken` of `chosen`.
template <typename T>
std::int32_t best_expert(const T* scores, const T* bias, std::int64_t count,
                         const std::int32_t* chosen, std::int64_t taken) {
  std::int32_t best = -1;
  T largest{};
  for (std::int32_t expert = 0; expert < count; ++expert) {
    if (std::find(chosen, chosen + taken, expert) != chosen + taken) continue;
    const T value =
        bias == nullptr ? scores[expert] : static_cast<T>(scores[expert] + bias[expert]);
    if (best >= 0 && !(value > largest)) continue;
    best = expert;
    largest = value;
  }
  return best;
}

}  // namespace

void top_k_router_forward(const OpCall& call) {
  with_floating_type(call, 3, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const std::int64_t tokens = extent(call, 3, 0);
    const std::int64_t count = extent(call, 3, 1);
    const std::int64_t top_k = extent(call, 1, 1);
    const T* bias = call.operand(4).valid() ? elements<T>(call, 4) : nullptr;
    for (std::int64_t token = 0; token < tokens; ++token) {
      const T* logits = elements<T>(call, 3) + token * count;
      T* scores = elements<T>(call, 2) + token * count;
      const A largest = *std::max_element(logits, logits + count);
      A sum = 0;
      for (std::int64_t i = 0; i < count; ++i) sum += std::exp(logits[i] - largest);
      for (std::int64_t i = 0; i < count; ++i) {
        scores[i] = static_cast<T>(std::exp(logits[i] - largest) / sum);
      }
      auto* experts = elements<std::int32_t>(call, 1) + token * top_k;
      for (std::int64_t i = 0; i < top_k; ++i) {
        experts[i] = best_expert(scores, bias, count, experts, i);
        elements<T>(call, 0)[token * top_k + i] = scores[experts[i]];
      }
    }
  });
}

void top_k_router_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    auto scale = static_cast<A>(call.params.as<BalanceParams>().scale);
    if (call.operand(5).valid()) scale *= *elements<A>(call, 5);
    const std::int64_t tokens = extent(call, 3, 0);
    const std::int64_t count = extent(call, 3, 1);
    const std::int64_t top_k = extent(call, 2, 1);
    const auto* load = elements<const std::int32_t>(call, 4);
    for (std::int64_t token = 0; token < tokens; ++token) {
      const A* grad_probabilities = elements<A>(call, 1) + token * top_k;
      const auto* experts = elements<const std::int32_t>(call, 2) + token * top_k;
      const A* scores = elements<A>(call, 3) + token * count;
      const auto grad_score = [&](std::int64_t expert) {
        A sum = scale * static_cast<A>(load[expert]);
        for (std::int64_t i = 0; i < top_k; ++i) {
          if (experts[i] == expert) sum += grad_probabilities[i];
        }
        return sum;
      };
      A dot = 0;
      for (std::int64_t i = 0; i < count; ++i) dot += grad_score(i) * scores[i];
      for (std::int64_t i = 0; i < count; ++i) {
        elements<T>(call, 0)[token * count + i] = static_cast<T>(scores[i] * (grad_score(i) - dot));
      }
    }
  });
}

void count_load(const OpCall& call) {
  auto* load = elements<std::int32_t>(call, 0);
  const auto* experts = elements<const std::int32_t>(call, 1);
  const std::int64_t places = call.operand(1).elements();
  for (std::int32_t expert = 0; expert < extent(call, 0, 0); ++expert) {
    load[expert] = static_cast<std::int32_t>(std::count(experts, experts + places, expert));
  }
}

void load_balancing_loss(const OpCall& call) {
  with_floating_type(call, 2, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto* load = elements<const std::int32_t>(call, 1);
    const T* scores = elements<T>(call, 2);
    const std::int64_t count = extent(call, 2, 1);
    A sum = 0;
    for (std::int64_t i = 0; i < call.operand(2).elements(); ++i) {
      sum += static_cast<A>(load[i % count]) * scores[i];
    }
    *elements<T>(call, 0) =
        static_cast<T>(static_cast<A>(call.params.as<BalanceParams>().scale) * sum);
  });
}

void load_gradient(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto params = call.params.as<BalanceParams>();
    auto scale = static_cast<A>(params.scale);
    if (call.operand(2).valid()) scale *= *elements<T>(call, 2);
    const auto* load = elements<const std::int32_t>(call, 1);
    for (std::int64_t i = 0; i < extent(call, 0, 0); ++i) {
      const A excess = static_cast<A>(load[i]) - static_cast<A>(params.expected_load);
      T& grad = elements<T>(call, 0)[i];
      grad = static_cast<T>(grad + scale * excess);
    }
  });
}

void jitter_forward(const OpCall& call) {
  auto* seed_and_offset = elements<std::uint64_t>(call, 2);
  const auto params = call.params.as<JitterParams>();
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto range = static_cast<double>(params.range);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const auto index = static_cast<std::uint64_t>(i);
      const std::uint32_t word =
          philox(seed_and_offset[0], seed_and_offset[1], index / 4)[index % 4];
      const auto noise = static_cast<A>(1.0 - range + 2.0 * range * uniform(word));
      elements<T>(call, 1)[i] = static_cast<T>(noise);
      elements<T>(call, 0)[i] = static_cast<T>(elements<T>(call, 3)[i] * noise);
    }
  });
  seed_and_offset[1] += params.advance;
}

void multiply(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      elements<T>(call, 0)[i] = static_cast<T>(elements<T>(call, 1)[i] * elements<T>(call, 2)[i]);
    }
  });
}

}  // namespace cgconform::workloads::reference
