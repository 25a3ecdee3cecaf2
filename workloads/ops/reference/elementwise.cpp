#include "workloads/ops/elementwise.hpp"

#include <cmath>
#include <numbers>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

template <typename T>
T normal_density(T x) {
  return std::exp(T{-0.5} * x * x) / std::sqrt(T{2} * std::numbers::pi_v<T>);
}

template <typename T>
T normal_distribution(T x) {
  return T{0.5} * (T{1} + std::erf(x / std::numbers::sqrt2_v<T>));
}

}  // namespace

void add(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* sum = elements<T>(call, 0);
    const T* a = elements<T>(call, 1);
    const T* b = elements<T>(call, 2);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      sum[i] = static_cast<T>(a[i] + b[i]);
    }
  });
}

void accumulate(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* destination = elements<T>(call, 0);
    const T* source = elements<T>(call, 1);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      destination[i] = static_cast<T>(destination[i] + source[i]);
    }
  });
}

void scale(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const auto factor = static_cast<Arithmetic<T>>(call.params.as<FactorParams>().factor);
    T* x = elements<T>(call, 0);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      x[i] = static_cast<T>(x[i] * factor);
    }
  });
}

void axpy(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const auto factor = static_cast<Arithmetic<T>>(call.params.as<FactorParams>().factor);
    T* y = elements<T>(call, 0);
    const T* x = elements<T>(call, 1);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      y[i] = static_cast<T>(y[i] + factor * x[i]);
    }
  });
}

void add_bias(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* x = elements<T>(call, 0);
    const T* bias = elements<T>(call, 1);
    const std::int64_t columns = call.operand(1).elements();
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      x[i] = static_cast<T>(x[i] + bias[i % columns]);
    }
  });
}

void bias_grad(const OpCall& call) {
  bias_grads(call);
}

void bias_grads(const OpCall& call) {
  with_floating_type(call, 1, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    for (std::size_t bias = 0; bias + 1 < call.operands.size(); bias += 2) {
      A* grad_bias = elements<A>(call, bias);
      const T* grad_output = elements<T>(call, bias + 1);
      const std::int64_t columns = call.operand(bias).elements();
      const std::int64_t rows = call.operand(bias + 1).elements() / columns;
      for (std::int64_t column = 0; column < columns; ++column) {
        A sum = 0;
        for (std::int64_t row = 0; row < rows; ++row) sum += grad_output[row * columns + column];
        grad_bias[column] += sum;
      }
    }
  });
}

void cast(const OpCall& call) {
  with_floating_type(call, 0, [&](auto destination_type) {
    using Destination = decltype(destination_type);
    with_floating_type(call, 1, [&](auto source_type) {
      using Source = decltype(source_type);
      auto* destination = elements<Destination>(call, 0);
      const auto* source = elements<Source>(call, 1);
      for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
        const auto value = static_cast<Arithmetic<Source>>(source[i]);
        destination[i] = static_cast<Destination>(static_cast<Arithmetic<Destination>>(value));
      }
    });
  });
}

void gelu_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* output = elements<T>(call, 0);
    const T* x = elements<T>(call, 1);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const Arithmetic<T> value = x[i];
      output[i] = static_cast<T>(value * normal_distribution(value));
    }
  });
}

void gelu_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* grad_x = elements<T>(call, 0);
    const T* grad_output = elements<T>(call, 1);
    const T* x = elements<T>(call, 2);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const Arithmetic<T> value = x[i];
      const Arithmetic<T> slope = normal_distribution(value) + value * normal_density(value);
      grad_x[i] = static_cast<T>(grad_output[i] * slope);
    }
  });
}

}  // namespace cgconform::workloads::reference
