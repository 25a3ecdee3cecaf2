#include "workloads/ops/cuda/gemm_engine.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch_context.hpp"

namespace cgconform::workloads::cuda {

namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
constexpr std::uint32_t largest_alignment = 256;

void check_blas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(status == CUBLAS_STATUS_NOT_SUPPORTED ? ErrorCategory::not_supported
                                                          : ErrorCategory::launch_failure,
                    call, fmt::format("cuBLASLt status {}", static_cast<int>(status)));
}

struct Types {
  cudaDataType_t data;
  cublasComputeType_t compute;
};

Types types_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return {CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::fp64:
      return {CUDA_R_64F, CUBLAS_COMPUTE_64F};
    default:
      throw DeviceError(ErrorCategory::not_supported, "gemm",
                        "gemm has no CUDA kernel for " + std::string(dtype_name(dtype)));
  }
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  std::uint32_t alignment = largest_alignment;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

/// Descriptions of one product. cuBLASLt is column-major, so the row-major product is written as
/// its transpose: c^T = op(b)^T op(a)^T with the operands swapped.
class Description {
 public:
  Description(const GemmParams& params, const Types& types) {
    check_blas(cublasLtMatmulDescCreate(&operation_, types.compute, types.data),
               "cublasLtMatmulDescCreate");
    const cublasOperation_t first = params.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = params.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    b_ = params.transpose_b ? layout(types, params.k, params.n, params.batch)
                            : layout(types, params.n, params.k, params.batch);
    a_ = params.transpose_a ? layout(types, params.m, params.k, params.batch)
                            : layout(types, params.k, params.m, params.batch);
    c_ = layout(types, params.n, params.m, params.batch);
  }
  ~Description() {
    cublasLtMatrixLayoutDestroy(a_);
    cublasLtMatrixLayoutDestroy(b_);
    cublasLtMatrixLayoutDestroy(c_);
    cublasLtMatmulDescDestroy(operation_);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  cublasLtMatmulDesc_t operation() const { return operation_; }
  cublasLtMatrixLayout_t a() const { return a_; }
  cublasLtMatrixLayout_t b() const { return b_; }
  cublasLtMatrixLayout_t c() const { return c_; }

 private:
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check_blas(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
  }

  static cublasLtMatrixLayout_t layout(const Types& types, int rows, int columns, int batch) {
    cublasLtMatrixLayout_t made = nullptr;
    check_blas(cublasLtMatrixLayoutCreate(&made, types.data, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), rows),
               "cublasLtMatrixLayoutCreate");
    const std::int64_t stride = std::int64_t{rows} * columns;
    cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                     sizeof(batch));
    cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                     sizeof(stride));
    return made;
  }

  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t c_ = nullptr;
};

cublasLtMatmulAlgo_t choose(cublasLtHandle_t handle, const Description& description,
                            std::uint32_t alignment) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                 CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, alignment);
  }
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, description.operation(), description.b(), description.a(), description.c(),
      description.c(), preference, 1, &result, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) check_blas(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  return result.algo;
}

}  // namespace

GemmAlgorithms::GemmAlgorithms() {
  check_blas(cublasLtCreate(&handle_), "cublasLtCreate");
}
GemmAlgorithms::~GemmAlgorithms() {
  cublasLtDestroy(handle_);
}

GemmEngine::GemmEngine(std::shared_ptr<GemmAlgorithms> algorithms)
    : algorithms_(std::move(algorithms)) {}

GemmEngine::~GemmEngine() {
  if (workspace_ != nullptr) static_cast<void>(cudaFree(workspace_));
}

void* GemmEngine::workspace() {
  if (workspace_ != nullptr) return workspace_;
  // The first product of a stream may be a captured one, in which the driver refuses to allocate.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CGCONFORM_CUDA_TRY(cudaThreadExchangeStreamCaptureMode(&mode));
  const cudaError_t status = cudaMalloc(&workspace_, workspace_bytes);
  CGCONFORM_CUDA_TRY(cudaThreadExchangeStreamCaptureMode(&mode));
  CGCONFORM_CUDA_TRY(status);
  return workspace_;
}

void GemmEngine::multiply(const GemmParams& params, const TensorView& c, const TensorView& a,
                          const TensorView& b, double beta, cudaStream_t stream) {
  const Types types = types_of(c.dtype);
  const Description description(params, types);
  const std::uint32_t alignment =
      std::min({alignment_of(a.data), alignment_of(b.data), alignment_of(c.data)});
  const GemmAlgorithms::Key key{params.batch,       params.m,           params.n, params.k,
                                params.transpose_a, params.transpose_b, c.dtype,  alignment};
  auto chosen = algorithms_->chosen_.find(key);
  if (chosen == algorithms_->chosen_.end()) {
    chosen = algorithms_->chosen_.emplace(key, choose(algorithms_->handle_, description, alignment))
                 .first;
  }
  const auto call = [&](const void* alpha, const void* scale) {
    check_blas(cublasLtMatmul(algorithms_->handle_, description.operation(), alpha, b.data,
                              description.b(), a.data, description.a(), scale, c.data,
                              description.c(), c.data, description.c(), &chosen->second,
                              workspace(), workspace_bytes, stream),
               "cublasLtMatmul");
  };
  if (c.dtype == DType::fp64) {
    const double alpha = params.alpha;
    call(&alpha, &beta);
  } else {
    const float alpha = params.alpha;
    const auto narrow_beta = static_cast<float>(beta);
    call(&alpha, &narrow_beta);
  }
}

void gemm(const OpCall& call, const LaunchContext& context) {
  context.gemm->multiply(call.params.as<GemmParams>(), call.operand(0), call.operand(1),
                         call.operand(2), 0.0, context.stream);
}

void gemm_accumulate(const OpCall& call, const LaunchContext& context) {
  context.gemm->multiply(call.params.as<GemmParams>(), call.operand(0), call.operand(1),
                         call.operand(2), 1.0, context.stream);
}

}  // namespace cgconform::workloads::cuda
