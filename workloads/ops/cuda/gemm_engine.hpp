#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "workloads/device/tensor.hpp"
#include "workloads/ops/gemm.hpp"

namespace cgconform::workloads::cuda {

/// cuBLASLt handle and the algorithm chosen for each key, shared by the streams of a device, so
/// that eager and captured runs multiply by the same algorithm.
class GemmAlgorithms {
 public:
  GemmAlgorithms();
  ~GemmAlgorithms();
  GemmAlgorithms(const GemmAlgorithms&) = delete;
  GemmAlgorithms& operator=(const GemmAlgorithms&) = delete;

 private:
  friend class GemmEngine;
  /// batch, m, n, k, transpose_a, transpose_b, dtype, alignment in bytes
  using Key = std::tuple<int, int, int, int, bool, bool, DType, std::uint32_t>;

  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, cublasLtMatmulAlgo_t> chosen_;
};

/// Multiplies on one stream with a workspace of its own, allocated at its first product. Only
/// algorithms whose reductions have a fixed order are used.
class GemmEngine {
 public:
  explicit GemmEngine(std::shared_ptr<GemmAlgorithms> algorithms);
  ~GemmEngine();
  GemmEngine(const GemmEngine&) = delete;
  GemmEngine& operator=(const GemmEngine&) = delete;

  /// c = alpha * op(a) op(b) + beta * c; throws DeviceError where cuBLASLt refuses.
  void multiply(const GemmParams& params, const TensorView& c, const TensorView& a,
                const TensorView& b, double beta, cudaStream_t stream);

 private:
  void* workspace();

  std::shared_ptr<GemmAlgorithms> algorithms_;
  void* workspace_ = nullptr;
};

}  // namespace cgconform::workloads::cuda
