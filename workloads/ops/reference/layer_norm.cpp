#include "workloads/ops/layer_norm.hpp"

#include <cmath>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

void layer_norm_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto epsilon = static_cast<A>(call.params.as<LayerNormParams>().epsilon);
    const std::int64_t rows = extent(call, 3, 0);
    const std::int64_t columns = extent(call, 3, 1);
    const T* gamma = elements<T>(call, 4);
    const T* beta = elements<T>(call, 5);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* output = elements<T>(call, 0) + row * columns;
      T* normalised = elements<T>(call, 1) + row * columns;
      const T* x = elements<T>(call, 3) + row * columns;
      A mean = 0;
      for (std::int64_t i = 0; i < columns; ++i) mean += x[i];
      mean /= static_cast<A>(columns);
      A variance = 0;
      for (std::int64_t i = 0; i < columns; ++i) variance += (x[i] - mean) * (x[i] - mean);
      variance /= static_cast<A>(columns);
      const A reciprocal = A{1} / std::sqrt(variance + epsilon);
      elements<A>(call, 2)[row] = reciprocal;
      for (std::int64_t i = 0; i < columns; ++i) {
        const A value = (x[i] - mean) * reciprocal;
        normalised[i] = static_cast<T>(value);
        output[i] = static_cast<T>(value * gamma[i] + beta[i]);
      }
    }
  });
}

void layer_norm_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const std::int64_t rows = extent(call, 3, 0);
    const std::int64_t columns = extent(call, 3, 1);
    A* grad_gamma = elements<A>(call, 1);
    A* grad_beta = elements<A>(call, 2);
    const T* gamma = elements<T>(call, 6);
    const T* residual = elements<T>(call, 7);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* grad_x = elements<T>(call, 0) + row * columns;
      const T* grad_output = elements<T>(call, 3) + row * columns;
      const T* normalised = elements<T>(call, 4) + row * columns;
      const A reciprocal = elements<A>(call, 5)[row];
      A mean_grad = 0;
      A mean_product = 0;
      for (std::int64_t i = 0; i < columns; ++i) {
        const A grad = grad_output[i] * gamma[i];
        mean_grad += grad;
        mean_product += grad * normalised[i];
      }
      mean_grad /= static_cast<A>(columns);
      mean_product /= static_cast<A>(columns);
      for (std::int64_t i = 0; i < columns; ++i) {
        const A grad = grad_output[i] * gamma[i];
        A value = reciprocal * (grad - mean_grad - normalised[i] * mean_product);
        if (residual != nullptr) value += residual[row * columns + i];
        grad_x[i] = static_cast<T>(value);
      }
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      A gamma_sum = 0;
      A beta_sum = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        const A grad = elements<T>(call, 3)[row * columns + i];
        gamma_sum += grad * elements<T>(call, 4)[row * columns + i];
        beta_sum += grad;
      }
      grad_gamma[i] += gamma_sum;
      grad_beta[i] += beta_sum;
    }
  });
}

}  // namespace cgconform::workloads::reference
