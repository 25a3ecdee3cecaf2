#include "workloads/ops/embedding_and_loss.hpp"

#include <algorithm>
#include <cmath>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

/// `index`, or 0 where it is not below `count`: wrong tokens give wrong numbers, not wild accesses.
std::int64_t table_row(std::int32_t index, std::int64_t count) {
  return index >= 0 && index < count ? index : 0;
}

template <typename T>
std::int64_t counted_rows(const T* loss_mask, std::int64_t rows) {
  return std::count_if(loss_mask, loss_mask + rows, [](T value) { return value != T{0}; });
}

}  // namespace

void embedding_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = extent(call, 0, 0);
    const std::int64_t hidden = extent(call, 0, 1);
    const auto* tokens = elements<const std::int32_t>(call, 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* token = elements<T>(call, 2) + table_row(tokens[row], extent(call, 2, 0)) * hidden;
      const T* position = elements<T>(call, 3) + row % extent(call, 3, 0) * hidden;
      T* output = elements<T>(call, 0) + row * hidden;
      for (std::int64_t i = 0; i < hidden; ++i) {
        output[i] = static_cast<T>(token[i] + position[i]);
      }
    }
  });
}

void embedding_backward(const OpCall& call) {
  with_floating_type(call, 3, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const std::int64_t rows = extent(call, 3, 0);
    const std::int64_t hidden = extent(call, 3, 1);
    const auto* tokens = elements<const std::int32_t>(call, 2);
    for (std::int64_t row = 0; row < rows; ++row) {
      A* token = elements<A>(call, 0) + table_row(tokens[row], extent(call, 0, 0)) * hidden;
      A* position = elements<A>(call, 1) + row % extent(call, 1, 0) * hidden;
      const T* grad_output = elements<T>(call, 3) + row * hidden;
      for (std::int64_t i = 0; i < hidden; ++i) {
        token[i] += grad_output[i];
        position[i] += grad_output[i];
      }
    }
  });
}

void cross_entropy_forward(const OpCall& call) {
  with_floating_type(call, 2, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const std::int64_t rows = extent(call, 2, 0);
    const std::int64_t vocabulary = extent(call, 2, 1);
    const auto* labels = elements<const std::int32_t>(call, 3);
    const A* loss_mask = elements<A>(call, 4);
    A total = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* logits = elements<T>(call, 2) + row * vocabulary;
      A* probabilities = elements<A>(call, 1) + row * vocabulary;
      const A largest = *std::max_element(logits, logits + vocabulary);
      A sum = 0;
      for (std::int64_t i = 0; i < vocabulary; ++i) {
        probabilities[i] = std::exp(logits[i] - largest);
        sum += probabilities[i];
      }
      for (std::int64_t i = 0; i < vocabulary; ++i) probabilities[i] /= sum;
      // A row that does not count may hold anything, NaN included.
      if (loss_mask[row] == A{0}) continue;
      const A chosen = logits[table_row(labels[row], vocabulary)];
      total += loss_mask[row] * (std::log(sum) + largest - chosen);
    }
    const std::int64_t counted = counted_rows(loss_mask, rows);
    *elements<A>(call, 0) = counted == 0 ? A{0} : total / static_cast<A>(counted);
  });
}

void cross_entropy_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    auto grad_scale = static_cast<A>(call.params.as<LossParams>().grad_scale);
    if (call.operand(4).valid()) grad_scale *= *elements<A>(call, 4);
    const std::int64_t rows = extent(call, 0, 0);
    const std::int64_t vocabulary = extent(call, 0, 1);
    const auto* labels = elements<const std::int32_t>(call, 2);
    const A* loss_mask = elements<A>(call, 3);
    const std::int64_t counted = counted_rows(loss_mask, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* grad_logits = elements<T>(call, 0) + row * vocabulary;
      const A* probabilities = elements<A>(call, 1) + row * vocabulary;
      if (loss_mask[row] == A{0}) {
        std::fill(grad_logits, grad_logits + vocabulary, T{});
        continue;
      }
      const A weight = grad_scale * loss_mask[row] / static_cast<A>(counted);
      const std::int64_t label = table_row(labels[row], vocabulary);
      for (std::int64_t i = 0; i < vocabulary; ++i) {
        const A target = i == label ? weight : A{0};
        grad_logits[i] = static_cast<T>(weight * probabilities[i] - target);
      }
    }
  });
}

}  // namespace cgconform::workloads::reference
