#include <array>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/dropout.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads::cuda {

namespace {

/// Draws the mask and applies it. `use_device_offset` reads the offset when the kernel runs.
template <typename T>
void drop(const OpCall& call, const LaunchContext& context, bool use_device_offset) {
  const auto params = call.params.as<DropoutParams>();
  T* output = elements<T>(call, 0);
  auto* mask = elements<std::uint8_t>(call, 1);
  const auto* seed_and_offset = elements<std::uint64_t>(call, 2);
  const T* x = elements<T>(call, 3);
  const T scale = T(1) / (T(1) - T(params.probability));
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const auto index = static_cast<std::uint64_t>(i);
    const std::uint64_t offset = use_device_offset ? seed_and_offset[1] : params.offset;
    const std::array<std::uint32_t, 4> words = philox(seed_and_offset[0], offset, index / 4);
    const bool kept = uniform(words[index % 4]) >= static_cast<double>(params.probability);
    mask[i] = kept ? 1 : 0;
    output[i] = kept ? x[i] * scale : T(0);
  });
}

template <typename T>
void dropout_backward_of(const OpCall& call, const LaunchContext& context) {
  const auto probability = call.params.as<DropoutParams>().probability;
  T* grad_x = elements<T>(call, 0);
  const T* grad_output = elements<T>(call, 1);
  const auto* mask = elements<std::uint8_t>(call, 2);
  const T scale = T(1) / (T(1) - T(probability));
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    grad_x[i] = mask[i] != 0 ? grad_output[i] * scale : T(0);
  });
}

void drop_typed(const OpCall& call, const LaunchContext& context, bool use_device_offset) {
  if (call.operand(0).dtype == DType::fp64) {
    drop<double>(call, context, use_device_offset);
  } else {
    drop<float>(call, context, use_device_offset);
  }
}

}  // namespace

void dropout_forward(const OpCall& call, const LaunchContext& context) {
  drop_typed(call, context, true);
  auto* seed_and_offset = elements<std::uint64_t>(call, 2);
  const std::uint64_t advance = call.params.as<DropoutParams>().advance;
  for_each(1, context, [=] __device__(std::int64_t) { seed_and_offset[1] += advance; });
}

void dropout_by_value(const OpCall& call, const LaunchContext& context) {
  drop_typed(call, context, false);
}

void dropout_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, dropout_backward_of<float>, dropout_backward_of<double>);
}

}  // namespace cgconform::workloads::cuda
