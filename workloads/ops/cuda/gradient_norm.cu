#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
#include "workloads/ops/gradient_norm.hpp"

namespace cgconform::workloads::cuda {

namespace {

template <typename T>
void square_sums_of(const OpCall& call, const LaunchContext& context) {
  auto* sums = elements<double>(call, 0);
  const T* grads = elements<T>(call, 1);
  const auto* parts = elements<GradientPart>(call, 2);
  const std::int64_t elements_of_grads = call.operand(1).elements();
  for_each_row(call.operand(0).elements(), context, [=] __device__(std::int64_t row) {
    const GradientPart part = parts[row];
    const std::int64_t count = lies_in(part, elements_of_grads) ? part.count : 0;
    double sum = 0.0;
    for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      const auto grad = static_cast<double>(widened(grads[part.first + i]));
      sum += grad * grad;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[row] = sum;
  });
}

template <typename T>
void scale_by_of(const OpCall& call, const LaunchContext& context) {
  T* tensor = elements<T>(call, 0);
  const auto* factor = elements<double>(call, 1);
  const bool packed = on_pack_borders(tensor);
  for_each_pack<T>(call.operand(0).elements(), packed, context, [=] __device__(const Lanes& lanes) {
    const auto scale = static_cast<Arithmetic<T>>(*factor);
    Pack<T> values = load(tensor, lanes);
    for_each_lane<T>(lanes, [&](int lane) {
      values.values[lane] = narrowed<T>(widened(values.values[lane]) * scale);
    });
    store(tensor, lanes, values);
  });
}

}  // namespace

void square_sums(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 1, CGCONFORM_FLOATING_KERNELS(square_sums_of));
}

void clip_factor(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<ClipParams>();
  auto* factor = elements<double>(call, 0);
  auto* norm = elements<double>(call, 1);
  const auto* squares = elements<double>(call, 2);
  const auto* overflowed = elements<float>(call, 3);
  for_each(1, context, [=] __device__(std::int64_t) {
    *norm = sqrt(*squares);
    const double clipped = params.largest_norm / (*norm + params.epsilon);
    const bool left_out = overflowed != nullptr && *overflowed != 0.0F;
    *factor = !left_out && clipped < 1.0 ? clipped : 1.0;
  });
}

void scale_by(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(scale_by_of));
}

}  // namespace cgconform::workloads::cuda
