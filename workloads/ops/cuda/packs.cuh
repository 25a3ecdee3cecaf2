#pragma once

#include <cstdint>

#include "workloads/ops/cuda/launch.cuh"

/// Memory access in packs of 16 bytes.
namespace cgconform::workloads::cuda {

/// Elements of T in a pack.
template <typename T>
constexpr int pack_size = static_cast<int>(16 / sizeof(T));

/// Consecutive elements, moved by one access where all of them are wanted.
template <typename T>
struct alignas(16) Pack {
  T values[pack_size<T>];
};

/// A run of elements that one thread works on: whole packs, or single elements where memory does
/// not begin at a multiple of a pack.
struct Lanes {
  std::int64_t first = 0;
  int count = 0;
};

/// Calls body(lane) for each lane. Unrolled, so that packs stay in registers.
template <typename T, typename Body>
__device__ void for_each_lane(const Lanes& lanes, Body body) {
#pragma unroll
  for (int lane = 0; lane < pack_size<T>; ++lane) {
    if (lane < lanes.count) body(lane);
  }
}

template <typename T>
__device__ Pack<T> load(const T* source, const Lanes& lanes) {
  if (lanes.count == pack_size<T>) return *reinterpret_cast<const Pack<T>*>(source + lanes.first);
  Pack<T> pack;
  for_each_lane<T>(lanes, [&](int lane) { pack.values[lane] = source[lanes.first + lane]; });
  return pack;
}

template <typename T>
__device__ void store(T* destination, const Lanes& lanes, const Pack<T>& pack) {
  if (lanes.count == pack_size<T>) {
    *reinterpret_cast<Pack<T>*>(destination + lanes.first) = pack;
    return;
  }
  for_each_lane<T>(lanes, [&](int lane) { destination[lanes.first + lane] = pack.values[lane]; });
}

/// True where every pointer lies at a multiple of 16 bytes.
template <typename... Pointer>
__host__ __device__ bool on_pack_borders(const Pointer*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// Runs body(lanes) over the elements [0, count) of T in packs; one by one where `packed` is false.
template <typename T, typename Body>
void for_each_pack(std::int64_t count, bool packed, const LaunchContext& context, Body body) {
  const int step = packed ? pack_size<T> : 1;
  for_each((count + step - 1) / step, context, [=] __device__(std::int64_t i) {
    const std::int64_t left = count - i * step;
    body(Lanes{i * step, left < step ? static_cast<int>(left) : step});
  });
}

template <typename T, typename Function, typename... Input>
__device__ void map_lanes(const Lanes& lanes, T* output, const Function& function,
                          const Pack<Input>&... inputs) {
  Pack<T> result;
  for_each_lane<T>(lanes, [&](int lane) {
    result.values[lane] = narrowed<T>(function(widened(inputs.values[lane])...));
  });
  store(output, lanes, result);
}

template <typename T, typename Function, typename... Input>
__global__ void __launch_bounds__(threads_per_block)
    map_kernel(std::int64_t count, int step, T* output, Function function, const Input*... inputs) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x * step;
  for (std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * step;
       first < count; first += stride) {
    const std::int64_t left = count - first;
    const Lanes lanes{first, left < step ? static_cast<int>(left) : step};
    map_lanes<T>(lanes, output, function, load(inputs, lanes)...);
  }
}

/// output[i] = function(inputs[i]...) in the arithmetic type of T, which all inputs share.
template <typename T, typename Function, typename... Input>
void map(std::int64_t count, const LaunchContext& context, T* output, Function function,
         const Input*... inputs) {
  if (count == 0) return;
  const int step = on_pack_borders(output, inputs...) ? pack_size<T> : 1;
  map_kernel<<<grid_for((count + step - 1) / step), threads_per_block, 0, context.stream>>>(
      count, step, output, function, inputs...);
}

/// Calls body(lanes) for the packs of a row of `columns` elements that are this thread's.
template <typename T, typename Body>
__device__ void for_each_in_row(std::int64_t columns, bool packed, Body body) {
  const int step = packed ? pack_size<T> : 1;
  for (std::int64_t first = std::int64_t{threadIdx.x} * step; first < columns;
       first += std::int64_t{blockDim.x} * step) {
    const std::int64_t left = columns - first;
    body(Lanes{first, left < step ? static_cast<int>(left) : step});
  }
}

}  // namespace cgconform::workloads::cuda
