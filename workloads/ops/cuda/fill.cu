#include <array>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/fill.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads::cuda {

namespace {

template <typename T>
__device__ T normal_number(const FillNormalParams& params, std::int64_t i) {
  constexpr double pi = 3.14159265358979323846;
  const std::array<std::uint32_t, 4> words =
      philox(params.seed, params.offset, place_of(params, i));
  const double radius = sqrt(-2.0 * log(1.0 - uniform(words[0])));
  const double normal = radius * cos(2.0 * pi * uniform(words[1]));
  const auto value = static_cast<float>(static_cast<double>(params.mean) +
                                        static_cast<double>(params.deviation) * normal);
  return narrowed<T>(static_cast<Arithmetic<T>>(value));
}

template <typename T>
void fill_normal_of(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<FillNormalParams>();
  T* output = elements<T>(call, 0);
  for_each(call.operand(0).elements(), context,
           [=] __device__(std::int64_t i) { output[i] = normal_number<T>(params, i); });
}

template <typename T>
void fill_normal_parts_of(const OpCall& call, const LaunchContext& context) {
  T* output = elements<T>(call, 0);
  const auto* parts = elements<NormalPart>(call, 1);
  const auto count =
      static_cast<int>(call.operand(1).bytes() / static_cast<std::int64_t>(sizeof(NormalPart)));
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    int below = 0;  // the last part that begins at or before the element
    for (int above = count - 1; below < above;) {
      const int middle = (below + above + 1) / 2;
      if (parts[middle].first <= i) {
        below = middle;
      } else {
        above = middle - 1;
      }
    }
    const NormalPart part = parts[below];
    if (i < part.first || i - part.first >= part.count) return;
    output[i] = normal_number<T>(part.values, i - part.first);
  });
}

template <typename T>
void fill_uniform_of(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<FillUniformParams>();
  T* output = elements<T>(call, 0);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    // Rounding to fp32 may reach `high`, which is excluded.
    const float largest = nextafterf(params.high, params.low);
    const std::uint32_t word = philox(params.seed, params.offset, static_cast<std::uint64_t>(i))[0];
    const double low = static_cast<double>(params.low);
    const double value = low + (static_cast<double>(params.high) - low) * uniform(word);
    output[i] = narrowed<T>(static_cast<Arithmetic<T>>(fminf(static_cast<float>(value), largest)));
  });
}

template <typename T>
void set_all(const OpCall& call, const LaunchContext& context, T value) {
  T* output = elements<T>(call, 0);
  for_each(call.operand(0).elements(), context,
           [=] __device__(std::int64_t i) { output[i] = value; });
}

}  // namespace

void fill_normal(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(fill_normal_of));
}

void fill_normal_parts(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(fill_normal_parts_of));
}

void fill_uniform(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(fill_uniform_of));
}

void fill_tokens(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<FillTokensParams>();
  auto* output = elements<std::int32_t>(call, 0);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const std::uint32_t word = philox(params.seed, params.offset, static_cast<std::uint64_t>(i))[0];
    const std::uint64_t scaled = std::uint64_t{word} * static_cast<std::uint64_t>(params.bound);
    output[i] = static_cast<std::int32_t>(scaled >> 32);
  });
}

void poison(const OpCall& call, const LaunchContext& context) {
  switch (call.operand(0).dtype) {
    case DType::fp32:
      return set_all(call, context, std::uint32_t{0x7FC5A5A5});
    case DType::fp64:
      return set_all(call, context, std::uint64_t{0x7FF8A5A5A5A5A5A5});
    case DType::bf16:
      return set_all(call, context, std::uint16_t{0x7FE5});
    case DType::fp16:
      return set_all(call, context, std::uint16_t{0x7EA5});
    case DType::int32:
      return set_all(call, context, std::uint32_t{0x80000000});
    case DType::int64:
      return set_all(call, context, std::uint64_t{0x8000000000000000});
    case DType::uint64:
      return set_all(call, context, std::uint64_t{0xA5A5A5A5A5A5A5A5});
    case DType::uint8:
      return set_all(call, context, std::uint8_t{0xA5});
  }
}

}  // namespace cgconform::workloads::cuda
