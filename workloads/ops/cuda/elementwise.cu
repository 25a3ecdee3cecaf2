#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/optimizer.hpp"

namespace cgconform::workloads::cuda {

namespace {

template <typename T>
__device__ T normal_density(T x) {
  constexpr T root_two_pi = T(2.5066282746310005024157652848110452530069867406099);
  return exp(T(-0.5) * x * x) / root_two_pi;
}

template <typename T>
__device__ T normal_distribution(T x) {
  constexpr T root_two = T(1.4142135623730950488016887242096980785696718753769);
  return T(0.5) * (T(1) + erf(x / root_two));
}

template <typename T>
void add_of(const OpCall& call, const LaunchContext& context) {
  T* sum = elements<T>(call, 0);
  const T* a = elements<T>(call, 1);
  const T* b = elements<T>(call, 2);
  for_each(call.operand(0).elements(), context,
           [=] __device__(std::int64_t i) { sum[i] = a[i] + b[i]; });
}

template <typename T>
void accumulate_of(const OpCall& call, const LaunchContext& context) {
  T* destination = elements<T>(call, 0);
  const T* source = elements<T>(call, 1);
  for_each(call.operand(0).elements(), context,
           [=] __device__(std::int64_t i) { destination[i] += source[i]; });
}

template <typename T>
void scale_of(const OpCall& call, const LaunchContext& context) {
  const T factor = T(call.params.as<FactorParams>().factor);
  T* x = elements<T>(call, 0);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) { x[i] *= factor; });
}

template <typename T>
void axpy_of(const OpCall& call, const LaunchContext& context) {
  const T factor = T(call.params.as<FactorParams>().factor);
  T* y = elements<T>(call, 0);
  const T* x = elements<T>(call, 1);
  for_each(call.operand(0).elements(), context,
           [=] __device__(std::int64_t i) { y[i] += factor * x[i]; });
}

template <typename T>
void add_bias_of(const OpCall& call, const LaunchContext& context) {
  T* x = elements<T>(call, 0);
  const T* bias = elements<T>(call, 1);
  const std::int64_t columns = call.operand(1).elements();
  for_each(call.operand(0).elements(), context,
           [=] __device__(std::int64_t i) { x[i] += bias[i % columns]; });
}

template <typename T>
void bias_grad_of(const OpCall& call, const LaunchContext& context) {
  T* grad_bias = elements<T>(call, 0);
  const T* grad_output = elements<T>(call, 1);
  const std::int64_t columns = call.operand(0).elements();
  const std::int64_t rows = call.operand(1).elements() / columns;
  for_each(columns, context, [=] __device__(std::int64_t column) {
    T sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += grad_output[row * columns + column];
    grad_bias[column] += sum;
  });
}

template <typename T>
void gelu_forward_of(const OpCall& call, const LaunchContext& context) {
  T* output = elements<T>(call, 0);
  const T* x = elements<T>(call, 1);
  for_each(call.operand(0).elements(), context,
           [=] __device__(std::int64_t i) { output[i] = x[i] * normal_distribution(x[i]); });
}

template <typename T>
void gelu_backward_of(const OpCall& call, const LaunchContext& context) {
  T* grad_x = elements<T>(call, 0);
  const T* grad_output = elements<T>(call, 1);
  const T* x = elements<T>(call, 2);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    grad_x[i] = grad_output[i] * (normal_distribution(x[i]) + x[i] * normal_density(x[i]));
  });
}

template <typename T>
void sgd_step_of(const OpCall& call, const LaunchContext& context) {
  const T momentum = T(call.params.as<SgdParams>().momentum);
  T* weight = elements<T>(call, 0);
  T* velocity = elements<T>(call, 1);
  const T* grad = elements<T>(call, 2);
  const T* learning_rate = elements<T>(call, 3);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    velocity[i] = momentum * velocity[i] + grad[i];
    weight[i] -= *learning_rate * velocity[i];
  });
}

template <typename T>
void adam_step_of(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<AdamParams>();
  const T beta_1 = T(params.beta_1);
  const T beta_2 = T(params.beta_2);
  const T epsilon = T(params.epsilon);
  T* weight = elements<T>(call, 0);
  T* first = elements<T>(call, 1);
  T* second = elements<T>(call, 2);
  const T* grad = elements<T>(call, 3);
  const T* learning_rate = elements<T>(call, 4);
  const auto* step = elements<std::int64_t>(call, 5);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const T correction_1 = T(1) - pow(beta_1, T(*step));
    const T correction_2 = T(1) - pow(beta_2, T(*step));
    first[i] = beta_1 * first[i] + (T(1) - beta_1) * grad[i];
    second[i] = beta_2 * second[i] + (T(1) - beta_2) * grad[i] * grad[i];
    const T denominator = sqrt(second[i] / correction_2) + epsilon;
    weight[i] -= *learning_rate * (first[i] / correction_1) / denominator;
  });
}

}  // namespace

void add(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, add_of<float>, add_of<double>);
}

void accumulate(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, accumulate_of<float>, accumulate_of<double>);
}

void scale(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, scale_of<float>, scale_of<double>);
}

void axpy(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, axpy_of<float>, axpy_of<double>);
}

void add_bias(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, add_bias_of<float>, add_bias_of<double>);
}

void bias_grad(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, bias_grad_of<float>, bias_grad_of<double>);
}

void gelu_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, gelu_forward_of<float>, gelu_forward_of<double>);
}

void gelu_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, gelu_backward_of<float>, gelu_backward_of<double>);
}

void sgd_step(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, sgd_step_of<float>, sgd_step_of<double>);
}

void adam_step(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, adam_step_of<float>, adam_step_of<double>);
}

void advance_step(const OpCall& call, const LaunchContext& context) {
  auto* step = elements<std::int64_t>(call, 0);
  for_each(1, context, [=] __device__(std::int64_t) { *step += 1; });
}

}  // namespace cgconform::workloads::cuda
