#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "workloads/device/tensor.hpp"
#include "workloads/ops/gemm.hpp"

namespace cgconform::workloads::cuda {

/// What is done with a product: c = alpha * product, added to c, or with a bias added to its rows.
enum class GemmEpilogue : std::uint8_t { none, accumulate, bias };

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
  /// batch, m, n, k, transpose_a, transpose_b, dtype of a, dtype of c, epilogue, alignment in bytes
  using Key = std::tuple<int, int, int, int, bool, bool, DType, DType, GemmEpilogue, std::uint32_t>;
  /// A described product and its algorithm.
  struct Plan;

  Plan& plan(const Key& key, const GemmParams& params);
  void* take_workspace();
  /// Work that uses it must have ended.
  void give_back(void* workspace) { idle_workspaces_.push_back(workspace); }

  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::vector<void*> idle_workspaces_;  ///< of streams that are gone
};

/// Multiplies on one stream with a workspace of its own, taken at its first use. Only
/// algorithms whose reductions have a fixed order and the precision of the arithmetic type are
/// used.
class GemmEngine {
 public:
  explicit GemmEngine(std::shared_ptr<GemmAlgorithms> algorithms);
  ~GemmEngine();
  GemmEngine(const GemmEngine&) = delete;
  GemmEngine& operator=(const GemmEngine&) = delete;

  /// c = alpha * op(a) op(b), finished by the epilogue; `bias` is read by that one alone. Throws
  /// DeviceError where cuBLASLt refuses.
  void multiply(const GemmParams& params, const TensorView& c, const TensorView& a,
                const TensorView& b, GemmEpilogue epilogue, const TensorView& bias,
                cudaStream_t stream);
  /// At least `bytes` of the stream's workspace, for a kernel that runs to its end before the next
  /// call on the stream. Throws DeviceError where the workspace is smaller.
  void* scratch(std::int64_t bytes, cudaStream_t stream);

 private:
  void* workspace(cudaStream_t stream);

  std::shared_ptr<GemmAlgorithms> algorithms_;
  void* workspace_ = nullptr;
  cudaStream_t stream_ = nullptr;  ///< whose work used the workspace
};

}  // namespace cgconform::workloads::cuda
