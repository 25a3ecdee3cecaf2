#include <array>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
#include "workloads/ops/dropout.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads::cuda {

namespace {

constexpr int words_a_draw = 4;

/// Draws the mask and applies it. `use_device_offset` reads the offset when the kernel runs.
template <typename T>
void drop(const OpCall& call, const LaunchContext& context, bool use_device_offset) {
  using A = Arithmetic<T>;
  const auto params = call.params.as<DropoutParams>();
  T* output = elements<T>(call, 0);
  auto* mask = elements<std::uint8_t>(call, 1);
  const auto* seed_and_offset = elements<std::uint64_t>(call, 2);
  const T* x = elements<T>(call, 3);
  const A scale = A(1) / (A(1) - A(params.probability));
  for_each_pack<T>(
      call.operand(0).elements(), on_pack_borders(output, x), context,
      [=] __device__(const Lanes& lanes) {
        const std::uint64_t offset = use_device_offset ? seed_and_offset[1] : params.offset;
        const Pack<T> values = load(x, lanes);
        Pack<T> results;
        std::array<std::uint32_t, words_a_draw> words{};
        for_each_lane<T>(lanes, [&](int lane) {
          const auto index = static_cast<std::uint64_t>(lanes.first + lane);
          if (lane == 0 || index % words_a_draw == 0) {
            words = philox(seed_and_offset[0], offset, index / words_a_draw);
          }
          const bool kept =
              uniform(words[index % words_a_draw]) >= static_cast<double>(params.probability);
          mask[index] = kept ? 1 : 0;
          results.values[lane] = narrowed<T>(kept ? widened(values.values[lane]) * scale : A(0));
        });
        store(output, lanes, results);
      });
}

template <typename T>
void dropout_forward_of(const OpCall& call, const LaunchContext& context) {
  drop<T>(call, context, true);
}

template <typename T>
void dropout_by_value_of(const OpCall& call, const LaunchContext& context) {
  drop<T>(call, context, false);
}

template <typename T>
void dropout_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const auto probability = call.params.as<DropoutParams>().probability;
  T* grad_x = elements<T>(call, 0);
  const T* grad_output = elements<T>(call, 1);
  const auto* mask = elements<std::uint8_t>(call, 2);
  const A scale = A(1) / (A(1) - A(probability));
  for_each_pack<T>(call.operand(0).elements(), on_pack_borders(grad_x, grad_output), context,
                   [=] __device__(const Lanes& lanes) {
                     const Pack<T> grads = load(grad_output, lanes);
                     Pack<T> results;
                     for_each_lane<T>(lanes, [&](int lane) {
                       const bool kept = mask[lanes.first + lane] != 0;
                       results.values[lane] =
                           narrowed<T>(kept ? widened(grads.values[lane]) * scale : A(0));
                     });
                     store(grad_x, lanes, results);
                   });
}

}  // namespace

void dropout_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(dropout_forward_of));
  auto* seed_and_offset = elements<std::uint64_t>(call, 2);
  const std::uint64_t advance = call.params.as<DropoutParams>().advance;
  for_each(1, context, [=] __device__(std::int64_t) { seed_and_offset[1] += advance; });
}

void dropout_by_value(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(dropout_by_value_of));
}

void dropout_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(dropout_backward_of));
}

}  // namespace cgconform::workloads::cuda
