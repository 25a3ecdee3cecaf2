#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
#include "workloads/ops/optimizer.hpp"

namespace cgconform::workloads::cuda {

namespace {

/// True where an optional flag is there and set.
__device__ bool is_set(const float* flag) {
  return flag != nullptr && *flag != 0.0F;
}

template <typename T>
void sgd_step_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const A momentum = A(call.params.as<SgdParams>().momentum);
  T* weight = elements<T>(call, 0);
  T* velocity = elements<T>(call, 1);
  const T* grad = elements<T>(call, 2);
  const T* learning_rate = elements<T>(call, 3);
  const auto* overflowed = elements<float>(call, 4);
  const bool packed = on_pack_borders(weight, velocity, grad);
  for_each_pack<T>(call.operand(0).elements(), packed, context, [=] __device__(const Lanes& lanes) {
    if (is_set(overflowed)) return;
    Pack<T> weights = load(weight, lanes);
    Pack<T> velocities = load(velocity, lanes);
    const Pack<T> grads = load(grad, lanes);
    const A rate = widened(*learning_rate);
    for_each_lane<T>(lanes, [&](int lane) {
      const A moved = momentum * widened(velocities.values[lane]) + widened(grads.values[lane]);
      velocities.values[lane] = narrowed<T>(moved);
      weights.values[lane] = narrowed<T>(widened(weights.values[lane]) - rate * moved);
    });
    store(velocity, lanes, velocities);
    store(weight, lanes, weights);
  });
}

template <typename T>
void adam_step_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const auto params = call.params.as<AdamParams>();
  const A beta_1 = A(params.beta_1);
  const A beta_2 = A(params.beta_2);
  const A epsilon = A(params.epsilon);
  T* weight = elements<T>(call, 0);
  T* first = elements<T>(call, 1);
  T* second = elements<T>(call, 2);
  const T* grad = elements<T>(call, 3);
  const T* learning_rate = elements<T>(call, 4);
  const auto* step = elements<std::int64_t>(call, 5);
  const auto* overflowed = elements<float>(call, 6);
  const bool packed = on_pack_borders(weight, first, second, grad);
  for_each_pack<T>(call.operand(0).elements(), packed, context, [=] __device__(const Lanes& lanes) {
    if (is_set(overflowed)) return;
    const A correction_1 = A(1) - pow(beta_1, A(*step));
    const A correction_2 = A(1) - pow(beta_2, A(*step));
    const A rate = widened(*learning_rate);
    Pack<T> weights = load(weight, lanes);
    Pack<T> means = load(first, lanes);
    Pack<T> squares = load(second, lanes);
    const Pack<T> grads = load(grad, lanes);
    for_each_lane<T>(lanes, [&](int lane) {
      const A slope = widened(grads.values[lane]);
      const A mean = beta_1 * widened(means.values[lane]) + (A(1) - beta_1) * slope;
      const A square = beta_2 * widened(squares.values[lane]) + (A(1) - beta_2) * slope * slope;
      const A denominator = sqrt(square / correction_2) + epsilon;
      means.values[lane] = narrowed<T>(mean);
      squares.values[lane] = narrowed<T>(square);
      weights.values[lane] =
          narrowed<T>(widened(weights.values[lane]) - rate * (mean / correction_1) / denominator);
    });
    store(first, lanes, means);
    store(second, lanes, squares);
    store(weight, lanes, weights);
  });
}

}  // namespace

void sgd_step(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(sgd_step_of));
}

void adam_step(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(adam_step_of));
}

void advance_step(const OpCall& call, const LaunchContext& context) {
  auto* step = elements<std::int64_t>(call, 0);
  const auto* overflowed = elements<float>(call, 1);
  for_each(1, context, [=] __device__(std::int64_t) {
    if (!is_set(overflowed)) *step += 1;
  });
}

void unscale_gradients(const OpCall& call, const LaunchContext& context) {
  auto* grad = elements<float>(call, 0);
  auto* overflowed = elements<float>(call, 1);
  const auto* loss_scale = elements<float>(call, 2);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    // Whichever threads write, they all write the same.
    if (!isfinite(grad[i])) *overflowed = 1.0F;
    grad[i] *= 1.0F / *loss_scale;
  });
}

void update_loss_scale(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<LossScaleParams>();
  auto* loss_scale = elements<float>(call, 0);
  auto* good_steps = elements<std::int64_t>(call, 1);
  const auto* overflowed = elements<float>(call, 2);
  for_each(1, context, [=] __device__(std::int64_t) {
    if (is_set(overflowed)) {
      *loss_scale = larger(*loss_scale * params.backoff, params.smallest);
      *good_steps = 0;
    } else if (++*good_steps == params.growth_interval) {
      *loss_scale *= params.growth;
      *good_steps = 0;
    }
  });
}

}  // namespace cgconform::workloads::cuda
