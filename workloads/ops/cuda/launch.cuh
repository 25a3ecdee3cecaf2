#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "workloads/device/errors.hpp"
#include "workloads/ops/cuda/launch_context.hpp"
#include "workloads/ops/op.hpp"

namespace cgconform::workloads::cuda {

constexpr int threads_per_block = 256;

template <typename T>
T* elements(const OpCall& call, std::size_t index) {
  return static_cast<T*>(call.operand(index).data);
}

inline std::int64_t extent(const OpCall& call, std::size_t index, int axis) {
  return call.operand(index).shape[axis];
}

/// Runs the kernel of the first operand's type. Throws DeviceError for types without one.
inline void launch_typed(const OpCall& call, const LaunchContext& context, CudaKernel fp32,
                         CudaKernel fp64) {
  switch (call.operand(0).dtype) {
    case DType::fp32:
      return fp32(call, context);
    case DType::fp64:
      return fp64(call, context);
    default:
      throw DeviceError(ErrorCategory::not_supported, std::string(call.op->name),
                        "op " + std::string(call.op->name) + " has no CUDA kernel for " +
                            std::string(dtype_name(call.operand(0).dtype)));
  }
}

template <typename Body>
__global__ void for_each_kernel(std::int64_t count, Body body) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    body(i);
  }
}

/// Runs body(i) for i in [0, count), each by one thread.
template <typename Body>
void for_each(std::int64_t count, const LaunchContext& context, Body body) {
  if (count == 0) return;
  constexpr std::int64_t most_blocks = 4096;
  const std::int64_t blocks = (count + threads_per_block - 1) / threads_per_block;
  const auto grid = static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks);
  for_each_kernel<<<grid, threads_per_block, 0, context.stream>>>(count, body);
}

/// Sum over the block in a fixed tree, so that the result never depends on timing. Every thread
/// gets it. The block has threads_per_block threads.
template <typename T>
__device__ T block_sum(T value) {
  __shared__ T shared[threads_per_block];
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = threads_per_block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  const T total = shared[0];
  __syncthreads();
  return total;
}

template <typename T>
__device__ T block_max(T value) {
  __shared__ T shared[threads_per_block];
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = threads_per_block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half && shared[threadIdx.x + half] > shared[threadIdx.x]) {
      shared[threadIdx.x] = shared[threadIdx.x + half];
    }
    __syncthreads();
  }
  const T largest = shared[0];
  __syncthreads();
  return largest;
}

template <typename Body>
__global__ void for_each_row_kernel(Body body) {
  body(std::int64_t{blockIdx.x});
}

/// Runs body(row) for row in [0, rows), each by a block of threads_per_block threads.
template <typename Body>
void for_each_row(std::int64_t rows, const LaunchContext& context, Body body) {
  if (rows == 0) return;
  for_each_row_kernel<<<static_cast<unsigned>(rows), threads_per_block, 0, context.stream>>>(body);
}

}  // namespace cgconform::workloads::cuda
