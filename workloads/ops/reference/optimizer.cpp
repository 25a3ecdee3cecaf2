#include "workloads/ops/optimizer.hpp"

#include <cmath>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

void sgd_step(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const auto momentum = static_cast<T>(call.params.as<SgdParams>().momentum);
    T* weight = elements<T>(call, 0);
    T* velocity = elements<T>(call, 1);
    const T* grad = elements<T>(call, 2);
    const T learning_rate = *elements<T>(call, 3);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      velocity[i] = momentum * velocity[i] + grad[i];
      weight[i] -= learning_rate * velocity[i];
    }
  });
}

void adam_step(const OpCall& call) {
  const auto params = call.params.as<AdamParams>();
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const auto beta_1 = static_cast<T>(params.beta_1);
    const auto beta_2 = static_cast<T>(params.beta_2);
    T* weight = elements<T>(call, 0);
    T* first = elements<T>(call, 1);
    T* second = elements<T>(call, 2);
    const T* grad = elements<T>(call, 3);
    const T learning_rate = *elements<T>(call, 4);
    const auto step = static_cast<T>(*elements<std::int64_t>(call, 5));
    const T correction_1 = T{1} - std::pow(beta_1, step);
    const T correction_2 = T{1} - std::pow(beta_2, step);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      first[i] = beta_1 * first[i] + (T{1} - beta_1) * grad[i];
      second[i] = beta_2 * second[i] + (T{1} - beta_2) * grad[i] * grad[i];
      const T denominator = std::sqrt(second[i] / correction_2) + static_cast<T>(params.epsilon);
      weight[i] -= learning_rate * (first[i] / correction_1) / denominator;
    }
  });
}

void advance_step(const OpCall& call) {
  *elements<std::int64_t>(call, 0) += 1;
}

}  // namespace cgconform::workloads::reference
