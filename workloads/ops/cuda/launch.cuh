#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "workloads/device/errors.hpp"
#include "workloads/ops/cuda/launch_context.hpp"
#include "workloads/ops/op.hpp"

namespace cgconform::workloads::cuda {

constexpr int threads_per_block = 256;
constexpr int warp_size = 32;

template <typename T>
constexpr bool is_sixteen_bit = std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half>;

/// What is computed in for elements of type T: fp32 for the 16-bit types.
template <typename T>
using Arithmetic = std::conditional_t<is_sixteen_bit<T>, float, T>;

/// The element in the type that is computed in, and back, rounded to nearest even.
template <typename T>
__device__ Arithmetic<T> widened(T value) {
  return static_cast<Arithmetic<T>>(value);
}
template <typename T>
__device__ T narrowed(Arithmetic<T> value) {
  return static_cast<T>(value);
}

template <typename T>
T* elements(const OpCall& call, std::size_t index) {
  return static_cast<T*>(call.operand(index).data);
}

inline std::int64_t extent(const OpCall& call, std::size_t index, int axis) {
  return call.operand(index).shape[axis];
}

/// One instance of a kernel's template for each floating type, for `launch_typed`.
#define CGCONFORM_FLOATING_KERNELS(kernel) \
  kernel<float>, kernel<double>, kernel<__nv_bfloat16>, kernel<__half>

/// Runs the kernel of the type of operand `index`. Throws DeviceError for types without one.
inline void launch_typed(const OpCall& call, const LaunchContext& context, std::size_t index,
                         CudaKernel fp32, CudaKernel fp64, CudaKernel bf16, CudaKernel fp16) {
  switch (call.operand(index).dtype) {
    case DType::fp32:
      return fp32(call, context);
    case DType::fp64:
      return fp64(call, context);
    case DType::bf16:
      return bf16(call, context);
    case DType::fp16:
      return fp16(call, context);
    default:
      throw DeviceError(ErrorCategory::not_supported, std::string(call.op->name),
                        "op " + std::string(call.op->name) + " has no CUDA kernel for " +
                            std::string(dtype_name(call.operand(index).dtype)));
  }
}

template <typename Body>
__global__ void __launch_bounds__(threads_per_block)
    for_each_kernel(std::int64_t count, Body body) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    body(i);
  }
}

/// Blocks for so many items of work; a thread takes several where there are very many.
inline unsigned grid_for(std::int64_t items) {
  constexpr std::int64_t most_blocks = 4096;
  const std::int64_t blocks = (items + threads_per_block - 1) / threads_per_block;
  return static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks);
}

/// Runs body(i) for i in [0, count), each by one thread.
template <typename Body>
void for_each(std::int64_t count, const LaunchContext& context, Body body) {
  if (count == 0) return;
  for_each_kernel<<<grid_for(count), threads_per_block, 0, context.stream>>>(count, body);
}

template <typename T>
__device__ T larger(T a, T b) {
  return a > b ? a : b;
}

/// Combines the values of a block's threads in a fixed tree, so that the result never depends on
/// timing. Every thread gets it. The block is a multiple of a warp.
template <typename T, typename Combine>
__device__ T block_reduce(T value, Combine combine) {
  __shared__ T warps[warp_size];
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  if (threadIdx.x % warp_size == 0) warps[threadIdx.x / warp_size] = value;
  __syncthreads();
  T result = warps[0];
  for (int warp = 1; warp < static_cast<int>(blockDim.x) / warp_size; ++warp) {
    result = combine(result, warps[warp]);
  }
  __syncthreads();
  return result;
}

struct Plus {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return larger(a, b);
  }
};

template <typename T>
__device__ T block_sum(T value) {
  return block_reduce(value, Plus{});
}
template <typename T>
__device__ T block_max(T value) {
  return block_reduce(value, Larger{});
}

template <typename Body>
__global__ void __launch_bounds__(threads_per_block) for_each_row_kernel(Body body) {
  body(std::int64_t{blockIdx.x});
}

/// Runs body(row) for row in [0, rows), each by a block of threads_per_block threads.
template <typename Body>
void for_each_row(std::int64_t rows, const LaunchContext& context, Body body) {
  if (rows == 0) return;
  for_each_row_kernel<<<static_cast<unsigned>(rows), threads_per_block, 0, context.stream>>>(body);
}

}  // namespace cgconform::workloads::cuda
