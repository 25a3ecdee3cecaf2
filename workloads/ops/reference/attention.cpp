#include "workloads/ops/attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

/// Calls visit(index into heads, index into rows) for every element of a part.
template <typename Visit>
void for_each_head_element(const HeadsParams& params, Visit&& visit) {
  const std::int64_t row_width = std::int64_t{params.parts} * params.heads * params.size;
  const std::int64_t part_start = std::int64_t{params.part} * params.heads * params.size;
  for (std::int64_t sequence = 0; sequence < params.sequences; ++sequence) {
    for (std::int64_t head = 0; head < params.heads; ++head) {
      for (std::int64_t position = 0; position < params.length; ++position) {
        const std::int64_t heads_row =
            ((sequence * params.heads + head) * params.length + position) * params.size;
        const std::int64_t row =
            (sequence * params.length + position) * row_width + part_start + head * params.size;
        for (std::int64_t i = 0; i < params.size; ++i) visit(heads_row + i, row + i);
      }
    }
  }
}

}  // namespace

void split_heads(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* heads = elements<T>(call, 0);
    const T* rows = elements<T>(call, 1);
    for_each_head_element(call.params.as<HeadsParams>(),
                          [&](std::int64_t head, std::int64_t row) { heads[head] = rows[row]; });
  });
}

void merge_heads(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* rows = elements<T>(call, 0);
    auto params = call.params.as<HeadsParams>();
    for (params.part = 0; params.part < params.parts; ++params.part) {
      const T* heads = elements<T>(call, 1 + static_cast<std::size_t>(params.part));
      for_each_head_element(params,
                            [&](std::int64_t head, std::int64_t row) { rows[row] = heads[head]; });
    }
  });
}

void split_parts(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const T* rows = elements<T>(call, 0);
    auto params = call.params.as<HeadsParams>();
    for (params.part = 0; params.part < params.parts; ++params.part) {
      T* heads = elements<T>(call, 1 + static_cast<std::size_t>(params.part));
      for_each_head_element(params,
                            [&](std::int64_t head, std::int64_t row) { heads[head] = rows[row]; });
    }
  });
}

void causal_softmax_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto scale = static_cast<A>(call.params.as<SoftmaxParams>().scale);
    const std::int64_t length = extent(call, 0, 2);
    const std::int64_t rows = call.operand(0).elements() / length;
    std::vector<A> powers(static_cast<std::size_t>(length));
    for (std::int64_t row = 0; row < rows; ++row) {
      T* probabilities = elements<T>(call, 0) + row * length;
      const T* scores = elements<T>(call, 1) + row * length;
      const std::int64_t visible = row % length + 1;
      A largest = scores[0] * scale;
      for (std::int64_t i = 1; i < visible; ++i) largest = std::max(largest, scores[i] * scale);
      A sum = 0;
      for (std::int64_t i = 0; i < visible; ++i) {
        A& power = powers[static_cast<std::size_t>(i)];
        power = std::exp(scores[i] * scale - largest);
        sum += power;
      }
      for (std::int64_t i = 0; i < visible; ++i) {
        probabilities[i] = static_cast<T>(powers[static_cast<std::size_t>(i)] / sum);
      }
      std::fill(probabilities + visible, probabilities + length, T{});
    }
  });
}

void causal_softmax_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto scale = static_cast<A>(call.params.as<SoftmaxParams>().scale);
    const std::int64_t length = extent(call, 0, 2);
    const std::int64_t rows = call.operand(0).elements() / length;
    for (std::int64_t row = 0; row < rows; ++row) {
      T* grad_scores = elements<T>(call, 0) + row * length;
      const T* grad_probabilities = elements<T>(call, 1) + row * length;
      const T* probabilities = elements<T>(call, 2) + row * length;
      const std::int64_t visible = row % length + 1;
      A dot = 0;
      for (std::int64_t i = 0; i < visible; ++i) dot += grad_probabilities[i] * probabilities[i];
      std::fill(grad_scores + visible, grad_scores + length, T{});
      for (std::int64_t i = 0; i < visible; ++i) {
        grad_scores[i] = static_cast<T>(scale * probabilities[i] * (grad_probabilities[i] - dot));
      }
    }
  });
}

}  // namespace cgconform::workloads::reference
