#pragma once

#include <cuda_runtime_api.h>

namespace cgconform::workloads::cuda {

class GemmEngine;

/// What a CUDA kernel is launched with.
struct LaunchContext {
  cudaStream_t stream = nullptr;
  GemmEngine* gemm = nullptr;  ///< the stream's own, with its workspace
};

}  // namespace cgconform::workloads::cuda
