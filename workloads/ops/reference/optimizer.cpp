#include "workloads/ops/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

/// True where the optional operand `index`, an fp32 flag, is there and set.
bool is_set(const OpCall& call, std::size_t index) {
  return call.operand(index).valid() && *elements<float>(call, index) != 0.0F;
}

}  // namespace

void sgd_step(const OpCall& call) {
  if (is_set(call, 4)) return;
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto momentum = static_cast<A>(call.params.as<SgdParams>().momentum);
    T* weight = elements<T>(call, 0);
    T* velocity = elements<T>(call, 1);
    const T* grad = elements<T>(call, 2);
    const A learning_rate = *elements<T>(call, 3);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const A moved = momentum * velocity[i] + grad[i];
      velocity[i] = static_cast<T>(moved);
      weight[i] = static_cast<T>(weight[i] - learning_rate * moved);
    }
  });
}

void adam_step(const OpCall& call) {
  if (is_set(call, 6)) return;
  const auto params = call.params.as<AdamParams>();
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto beta_1 = static_cast<A>(params.beta_1);
    const auto beta_2 = static_cast<A>(params.beta_2);
    T* weight = elements<T>(call, 0);
    T* first = elements<T>(call, 1);
    T* second = elements<T>(call, 2);
    const T* grad = elements<T>(call, 3);
    const A learning_rate = *elements<T>(call, 4);
    const auto step = static_cast<A>(*elements<std::int64_t>(call, 5));
    const A correction_1 = A{1} - std::pow(beta_1, step);
    const A correction_2 = A{1} - std::pow(beta_2, step);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const A slope = grad[i];
      const A mean = beta_1 * first[i] + (A{1} - beta_1) * slope;
      const A square = beta_2 * second[i] + (A{1} - beta_2) * slope * slope;
      const A denominator = std::sqrt(square / correction_2) + static_cast<A>(params.epsilon);
      first[i] = static_cast<T>(mean);
      second[i] = static_cast<T>(square);
      weight[i] = static_cast<T>(weight[i] - learning_rate * (mean / correction_1) / denominator);
    }
  });
}

void advance_step(const OpCall& call) {
  if (is_set(call, 1)) return;
  *elements<std::int64_t>(call, 0) += 1;
}

void unscale_gradients(const OpCall& call) {
  auto* grad = elements<float>(call, 0);
  const float factor = 1.0F / *elements<float>(call, 2);
  for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
    if (!std::isfinite(grad[i])) *elements<float>(call, 1) = 1.0F;
    grad[i] *= factor;
  }
}

void update_loss_scale(const OpCall& call) {
  const auto params = call.params.as<LossScaleParams>();
  float& loss_scale = *elements<float>(call, 0);
  std::int64_t& good_steps = *elements<std::int64_t>(call, 1);
  if (is_set(call, 2)) {
    loss_scale = std::max(loss_scale * params.backoff, params.smallest);
    good_steps = 0;
  } else if (++good_steps == params.growth_interval) {
    loss_scale *= params.growth;
    good_steps = 0;
  }
}

}  // namespace cgconform::workloads::reference
