#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "workloads/device/tensor.hpp"
#include "workloads/ops/fp8.hpp"
#include "workloads/ops/gemm.hpp"

namespace cgconform::workloads::cuda {

/// What is done with a product: c = alpha * product, or that added to c, or with a bias added to
/// its rows, or with another matrix and a bias.
enum class GemmEpilogue : std::uint8_t { none, accumulate, bias, residual_and_bias };

/// The operands of a product; those that its epilogue does not read are invalid.
struct GemmOperands {
  TensorView c;
  TensorView a;
  TensorView b;
  TensorView bias{};
  TensorView residual{};
};

/// The operands of a product in 8 bits. Scales are scalars in device memory.
struct Fp8Operands {
  TensorView c;
  TensorView a;
  TensorView b;
  TensorView descale_a;
  TensorView descale_b;
};

/// cuBLASLt handle and the algorithm chosen for each key, shared by the streams of a device, so
/// that eager and captured runs multiply by the same algorithm.
class GemmAlgorithms {
 public:
  GemmAlgorithms();
  ~GemmAlgorithms();
  GemmAlgorithms(const GemmAlgorithms&) = delete;
  GemmAlgorithms& operator=(const GemmAlgorithms&) = delete;

  /// True where the device has units for products in 8 bits.
  bool multiplies_fp8() const { return multiplies_fp8_; }
  /// Products in 8 bits that cuBLASLt has done; the others were left to a plain kernel.
  std::uint64_t fp8_products() const { return fp8_products_; }

 private:
  friend class GemmEngine;
  struct Key {
    GemmParams params;
    cudaDataType_t a = CUDA_R_32F;
    cudaDataType_t b = CUDA_R_32F;
    cudaDataType_t result = CUDA_R_32F;
    GemmEpilogue epilogue = GemmEpilogue::none;
    std::uint32_t alignment = 0;  ///< bytes

    bool operator==(const Key& other) const;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  /// A described product and its algorithm.
  struct Plan;

  /// Where the factors of both operands lie in device memory; null where there are none.
  struct ScalePointers {
    const void* a = nullptr;
    const void* b = nullptr;
  };

  Plan& plan(const Key& key, const ScalePointers& scales);
  void* take_workspace();
  /// Work that uses it must have ended.
  void give_back(void* workspace) { idle_workspaces_.push_back(workspace); }

  cublasLtHandle_t handle_ = nullptr;
  bool multiplies_fp8_ = false;
  std::uint64_t fp8_products_ = 0;
  std::unordered_map<Key, std::unique_ptr<Plan>, KeyHash> plans_;
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

  /// c = alpha * op(a) op(b), finished by the epilogue. Throws DeviceError where cuBLASLt refuses.
  void multiply(const GemmParams& params, const GemmOperands& operands, GemmEpilogue epilogue,
                cudaStream_t stream);
  /// c = a b^T * scales of both, or adds it to c, in 8 bits. False, and nothing done, where the
  /// device or cuBLASLt has no such product: that depends on types, extents and alignment alone, so
  /// that all runs of a product multiply alike. Throws DeviceError where the product fails.
  bool multiply(const Fp8GemmParams& params, const Fp8Operands& operands, bool accumulates,
                cudaStream_t stream);
  /// At least `bytes` of the stream's workspace, for a kernel that runs to its end before the next
  /// call on the stream. Throws DeviceError where the workspace is smaller.
  void* scratch(std::int64_t bytes, cudaStream_t stream);

 private:
  bool multiplies(const Fp8GemmParams& params, DType result) const;
  void* workspace(cudaStream_t stream);
  void launch(GemmAlgorithms::Plan& plan, const void* alpha, const void* beta,
              const GemmOperands& operands, cudaStream_t stream);

  std::shared_ptr<GemmAlgorithms> algorithms_;
  void* workspace_ = nullptr;
  cudaStream_t stream_ = nullptr;  ///< whose work used the workspace
};

}  // namespace cgconform::workloads::cuda
