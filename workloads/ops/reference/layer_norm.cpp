#include "workloads/ops/layer_norm.hpp"

#include <cmath>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

void layer_norm_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const auto epsilon = static_cast<T>(call.params.as<LayerNormParams>().epsilon);
    const std::int64_t rows = extent(call, 3, 0);
    const std::int64_t columns = extent(call, 3, 1);
    const T* gamma = elements<T>(call, 4);
    const T* beta = elements<T>(call, 5);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* output = elements<T>(call, 0) + row * columns;
      T* normalised = elements<T>(call, 1) + row * columns;
      const T* x = elements<T>(call, 3) + row * columns;
      T mean = 0;
      for (std::int64_t i = 0; i < columns; ++i) mean += x[i];
      mean /= static_cast<T>(columns);
      T variance = 0;
      for (std::int64_t i = 0; i < columns; ++i) variance += (x[i] - mean) * (x[i] - mean);
      variance /= static_cast<T>(columns);
      const T reciprocal = T{1} / std::sqrt(variance + epsilon);
      elements<T>(call, 2)[row] = reciprocal;
      for (std::int64_t i = 0; i < columns; ++i) {
        normalised[i] = (x[i] - mean) * reciprocal;
        output[i] = normalised[i] * gamma[i] + beta[i];
      }
    }
  });
}

void layer_norm_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = extent(call, 3, 0);
    const std::int64_t columns = extent(call, 3, 1);
    T* grad_gamma = elements<T>(call, 1);
    T* grad_beta = elements<T>(call, 2);
    const T* gamma = elements<T>(call, 6);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* grad_x = elements<T>(call, 0) + row * columns;
      const T* grad_output = elements<T>(call, 3) + row * columns;
      const T* normalised = elements<T>(call, 4) + row * columns;
      const T reciprocal = elements<T>(call, 5)[row];
      T mean_grad = 0;
      T mean_product = 0;
      for (std::int64_t i = 0; i < columns; ++i) {
        const T grad = grad_output[i] * gamma[i];
        mean_grad += grad;
        mean_product += grad * normalised[i];
      }
      mean_grad /= static_cast<T>(columns);
      mean_product /= static_cast<T>(columns);
      for (std::int64_t i = 0; i < columns; ++i) {
        const T grad = grad_output[i] * gamma[i];
        grad_x[i] = reciprocal * (grad - mean_grad - normalised[i] * mean_product);
      }
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      T gamma_sum = 0;
      T beta_sum = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        const T grad = elements<T>(call, 3)[row * columns + i];
        gamma_sum += grad * elements<T>(call, 4)[row * columns + i];
        beta_sum += grad;
      }
      grad_gamma[i] += gamma_sum;
      grad_beta[i] += beta_sum;
    }
  });
}

}  // namespace cgconform::workloads::reference
