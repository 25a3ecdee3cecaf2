#include "workloads/ops/cuda/gemm_engine.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/ops/cuda/add_bias.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch_context.hpp"

namespace cgconform::workloads::cuda {

namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
constexpr std::uint32_t largest_alignment = 256;
constexpr std::pair first_fp8_capability{8, 9};
/// Extents of products in 8 bits are multiples of it.
constexpr std::int32_t fp8_extent = 16;
/// cuBLASLt reads the factor of an operand from such addresses alone.
constexpr std::uint32_t scale_alignment = descale_stride * sizeof(float);
constexpr int offered_algorithms = 8;

void check_blas(cublasStatus_t status, const char* call, std::string_view subject = {}) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(status == CUBLAS_STATUS_NOT_SUPPORTED ? ErrorCategory::not_supported
                                                          : ErrorCategory::launch_failure,
                    call,
                    fmt::format("cuBLASLt status {}{}{}", static_cast<int>(status),
                                subject.empty() ? "" : ", ", subject));
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::fp64:
      return CUDA_R_64F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
    default:
      throw DeviceError(ErrorCategory::not_supported, "gemm",
                        "gemm has no CUDA kernel for " + std::string(dtype_name(dtype)));
  }
}

cudaDataType_t data_type(EightBitFormat format) {
  return format == EightBitFormat::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

/// Types of the operands of a product; it is summed up, and scaled, in fp64 or fp32.
struct Types {
  cudaDataType_t a;
  cudaDataType_t b;
  cudaDataType_t result;

  bool wide() const { return a == CUDA_R_64F; }
  cudaDataType_t scale() const { return wide() ? CUDA_R_64F : CUDA_R_32F; }
  cublasComputeType_t compute() const { return wide() ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F; }
};

bool has_bias(GemmEpilogue epilogue) {
  return epilogue == GemmEpilogue::bias || epilogue == GemmEpilogue::residual_and_bias;
}

bool adds_matrix(GemmEpilogue epilogue) {
  return epilogue == GemmEpilogue::accumulate || epilogue == GemmEpilogue::residual_and_bias;
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
  Description(const GemmParams& params, const Types& types, GemmEpilogue epilogue)
      : text_(fmt::format("{} of [{}, {}] by [{}, {}], cudaDataType {} and {} to {}", params.batch,
                          params.m, params.k, params.k, params.n, static_cast<int>(types.a),
                          static_cast<int>(types.b), static_cast<int>(types.result))),
        operations_(2.0 * params.batch * params.m * params.n * params.k) {
    check_blas(cublasLtMatmulDescCreate(&operation_, types.compute(), types.scale()),
               "cublasLtMatmulDescCreate");
    const cublasOperation_t first = params.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = params.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    if (has_bias(epilogue)) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    }
    b_ = params.transpose_b ? layout(types.b, params.k, params.n, params.batch)
                            : layout(types.b, params.n, params.k, params.batch);
    a_ = params.transpose_a ? layout(types.a, params.m, params.k, params.batch)
                            : layout(types.a, params.k, params.m, params.batch);
    c_ = layout(types.result, params.n, params.m, params.batch);
  }
  ~Description() {
    cublasLtMatrixLayoutDestroy(a_);
    cublasLtMatrixLayoutDestroy(b_);
    cublasLtMatrixLayoutDestroy(c_);
    cublasLtMatmulDescDestroy(operation_);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  /// The vector that the bias epilogue adds; as long as a column of the transposed product.
  void set_bias(const void* bias) { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }

  /// What both operands are multiplied by, in device memory. The first operand is b.
  void set_scales(const void* of_a, const void* of_b) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, of_b);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, of_a);
  }

  /// True where a launch costs as much as the product.
  bool is_small() const { return operations_ <= small_product; }
  /// The product in words, for a reader of an error.
  const std::string& text() const { return text_; }
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

  static cublasLtMatrixLayout_t layout(cudaDataType_t type, int rows, int columns, int batch) {
    cublasLtMatrixLayout_t made = nullptr;
    check_blas(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), rows),
               "cublasLtMatrixLayoutCreate");
    const std::int64_t stride = std::int64_t{rows} * columns;
    cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                     sizeof(batch));
    cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                     sizeof(stride));
    return made;
  }

  static constexpr double small_product = 64.0 * 1024.0 * 1024.0;

  std::string text_;
  double operations_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t c_ = nullptr;
};

/// The first algorithm that cuBLASLt offers for a product and then takes; empty where none is.
std::optional<cublasLtMatmulAlgo_t> choose(cublasLtHandle_t handle, const Description& description,
                                           std::uint32_t alignment) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Partial sums are combined in a fixed order and in the type that is computed in. A small product
  // has none: combining them takes a launch, which costs more than it saves.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(description.is_small() ? CUBLASLT_REDUCTION_SCHEME_NONE
                                                        : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, alignment);
  }
  std::array<cublasLtMatmulHeuristicResult_t, offered_algorithms> offered = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, description.operation(), description.b(), description.a(), description.c(),
      description.c(), preference, offered_algorithms, offered.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
  for (const auto& candidate : std::span(offered).first(static_cast<std::size_t>(found))) {
    if (candidate.state != CUBLAS_STATUS_SUCCESS) continue;
    // The heuristic looks at less than the product does, 8-bit products above all.
    cublasLtMatmulHeuristicResult_t checked = {};
    if (cublasLtMatmulAlgoCheck(handle, description.operation(), description.b(), description.a(),
                                description.c(), description.c(), &candidate.algo,
                                &checked) == CUBLAS_STATUS_SUCCESS &&
        checked.workspaceSize <= workspace_bytes) {
      return candidate.algo;
    }
  }
  return std::nullopt;
}

}  // namespace

struct GemmAlgorithms::Plan {
  Description description;
  std::optional<cublasLtMatmulAlgo_t> algorithm;
};

GemmAlgorithms::GemmAlgorithms() {
  check_blas(cublasLtCreate(&handle_), "cublasLtCreate");
  int device = 0;
  int major = 0;
  int minor = 0;
  CGCONFORM_CUDA_TRY(cudaGetDevice(&device));
  CGCONFORM_CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  CGCONFORM_CUDA_TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  multiplies_fp8_ = std::pair{major, minor} >= first_fp8_capability;
}
GemmAlgorithms::~GemmAlgorithms() {
  plans_.clear();
  cublasLtDestroy(handle_);
  for (void* workspace : idle_workspaces_) static_cast<void>(cudaFree(workspace));
}

void* GemmAlgorithms::take_workspace() {
  if (!idle_workspaces_.empty()) {
    void* workspace = idle_workspaces_.back();
    idle_workspaces_.pop_back();
    return workspace;
  }
  // The first product of a stream may be a captured one, in which the driver refuses to allocate.
  void* workspace = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CGCONFORM_CUDA_TRY(cudaThreadExchangeStreamCaptureMode(&mode));
  const cudaError_t status = cudaMalloc(&workspace, workspace_bytes);
  CGCONFORM_CUDA_TRY(cudaThreadExchangeStreamCaptureMode(&mode));
  CGCONFORM_CUDA_TRY(status);
  return workspace;
}

bool GemmAlgorithms::Key::operator==(const Key& other) const {
  const auto of = [](const Key& key) {
    const GemmParams& p = key.params;
    return std::tuple{p.batch, p.m,   p.n,        p.k,          p.transpose_a, p.transpose_b,
                      key.a,   key.b, key.result, key.epilogue, key.alignment};
  };
  return of(*this) == of(other);
}

std::size_t GemmAlgorithms::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0;
  const auto add = [&hash](auto value) {
    constexpr std::uint64_t multiplier = 0x9E3779B97F4A7C15ULL;
    hash = (hash ^ static_cast<std::uint64_t>(value)) * multiplier;
    hash ^= hash >> 32;
  };
  const GemmParams& params = key.params;
  for (const int extent : {params.batch, params.m, params.n, params.k}) add(extent);
  add((params.transpose_a ? 2 : 0) + (params.transpose_b ? 1 : 0));
  for (const cudaDataType_t type : {key.a, key.b, key.result}) add(static_cast<unsigned>(type));
  add(static_cast<unsigned>(key.epilogue));
  add(key.alignment);
  return hash;
}

GemmAlgorithms::Plan& GemmAlgorithms::plan(const Key& key, const ScalePointers& scales) {
  std::unique_ptr<Plan>& plan = plans_[key];
  if (!plan) {
    std::unique_ptr<Plan> made(
        new Plan{{key.params, Types{key.a, key.b, key.result}, key.epilogue}, std::nullopt});
    // Not every algorithm multiplies by scales: they have to be there when one is chosen.
    if (scales.a != nullptr) made->description.set_scales(scales.a, scales.b);
    made->algorithm = choose(handle_, made->description, key.alignment);
    plan = std::move(made);
  }
  return *plan;
}

GemmEngine::GemmEngine(std::shared_ptr<GemmAlgorithms> algorithms)
    : algorithms_(std::move(algorithms)) {}

GemmEngine::~GemmEngine() {
  if (workspace_ == nullptr) return;
  // A stream that does not end in order, or captures, keeps the memory from being used again.
  if (cudaStreamSynchronize(stream_) == cudaSuccess) {
    algorithms_->give_back(workspace_);
  } else {
    static_cast<void>(cudaGetLastError());
    static_cast<void>(cudaFree(workspace_));
  }
}

void* GemmEngine::workspace(cudaStream_t stream) {
  if (workspace_ == nullptr) workspace_ = algorithms_->take_workspace();
  stream_ = stream;
  return workspace_;
}

void* GemmEngine::scratch(std::int64_t bytes, cudaStream_t stream) {
  if (static_cast<std::size_t>(bytes) > workspace_bytes) {
    throw DeviceError(ErrorCategory::memory_allocation, "scratch",
                      fmt::format("{} bytes wanted of a workspace of {}", bytes, workspace_bytes));
  }
  return workspace(stream);
}

void GemmEngine::launch(GemmAlgorithms::Plan& plan, const void* alpha, const void* beta,
                        const GemmOperands& operands, cudaStream_t stream) {
  if (!plan.algorithm) {
    throw DeviceError(ErrorCategory::not_supported, "cublasLtMatmulAlgoGetHeuristic",
                      "cuBLASLt has no algorithm for " + plan.description.text());
  }
  const void* added = operands.residual.valid() ? operands.residual.data : operands.c.data;
  const cublasStatus_t status =
      cublasLtMatmul(algorithms_->handle_, plan.description.operation(), alpha, operands.b.data,
                     plan.description.b(), operands.a.data, plan.description.a(), beta, added,
                     plan.description.c(), operands.c.data, plan.description.c(), &*plan.algorithm,
                     workspace(stream), workspace_bytes, stream);
  check_blas(status, "cublasLtMatmul", plan.description.text());
}

void GemmEngine::multiply(const GemmParams& params, const GemmOperands& operands,
                          GemmEpilogue epilogue, cudaStream_t stream) {
  GemmAlgorithms::Key key{.params = params,
                          .a = data_type(operands.a.dtype),
                          .b = data_type(operands.a.dtype),
                          .result = data_type(operands.c.dtype),
                          .epilogue = epilogue,
                          .alignment = largest_alignment};
  for (const TensorView* operand :
       {&operands.c, &operands.a, &operands.b, &operands.bias, &operands.residual}) {
    if (operand->valid()) key.alignment = std::min(key.alignment, alignment_of(operand->data));
  }
  GemmAlgorithms::Plan& plan = algorithms_->plan(key, {});
  if (has_bias(epilogue)) plan.description.set_bias(operands.bias.data);
  const float beta = adds_matrix(epilogue) ? 1.0F : 0.0F;
  if (operands.a.dtype == DType::fp64) {
    const double wide_alpha = params.alpha;
    const double wide_beta = beta;
    launch(plan, &wide_alpha, &wide_beta, operands, stream);
  } else {
    launch(plan, &params.alpha, &beta, operands, stream);
  }
}

bool GemmEngine::multiplies(const Fp8GemmParams& params, DType result) const {
  const bool both_wide =
      params.format_a == EightBitFormat::e5m2 && params.format_b == EightBitFormat::e5m2;
  return algorithms_->multiplies_fp8() && result != DType::fp64 && !both_wide &&
         params.m % fp8_extent == 0 && params.n % fp8_extent == 0 && params.k % fp8_extent == 0;
}

bool GemmEngine::multiply(const Fp8GemmParams& params, const Fp8Operands& operands,
                          bool accumulates, cudaStream_t stream) {
  if (!multiplies(params, operands.c.dtype)) return false;
  if (std::min(alignment_of(operands.descale_a.data), alignment_of(operands.descale_b.data)) <
      scale_alignment) {
    return false;
  }
  GemmAlgorithms::Key key{
      .params = {.m = params.m, .n = params.n, .k = params.k, .transpose_b = true},
      .a = data_type(params.format_a),
      .b = data_type(params.format_b),
      .result = data_type(operands.c.dtype),
      .epilogue = accumulates ? GemmEpilogue::accumulate : GemmEpilogue::none,
      .alignment = largest_alignment};
  for (const TensorView* operand : {&operands.c, &operands.a, &operands.b}) {
    key.alignment = std::min(key.alignment, alignment_of(operand->data));
  }
  GemmAlgorithms::Plan& plan =
      algorithms_->plan(key, {operands.descale_a.data, operands.descale_b.data});
  if (!plan.algorithm) return false;
  plan.description.set_scales(operands.descale_a.data, operands.descale_b.data);
  const float alpha = 1.0F;
  const float beta = accumulates ? 1.0F : 0.0F;
  launch(plan, &alpha, &beta, {.c = operands.c, .a = operands.a, .b = operands.b}, stream);
  ++algorithms_->fp8_products_;
  return true;
}

void gemm(const OpCall& call, const LaunchContext& context) {
  context.gemm->multiply(call.params.as<GemmParams>(),
                         {call.operand(0), call.operand(1), call.operand(2)}, GemmEpilogue::none,
                         context.stream);
}

void gemm_accumulate(const OpCall& call, const LaunchContext& context) {
  context.gemm->multiply(call.params.as<GemmParams>(),
                         {call.operand(0), call.operand(1), call.operand(2)},
                         GemmEpilogue::accumulate, context.stream);
}

void gemm_bias(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<GemmParams>();
  GemmOperands operands{call.operand(0), call.operand(1), call.operand(2), call.operand(3),
                        call.operand(4)};
  if (operands.c.dtype != DType::fp64) {
    const bool adds = operands.residual.valid();
    context.gemm->multiply(params, operands,
                           adds ? GemmEpilogue::residual_and_bias : GemmEpilogue::bias,
                           context.stream);
    return;
  }
  // cuBLASLt has no bias epilogue in fp64.
  const TensorView bias = std::exchange(operands.bias, {});
  context.gemm->multiply(params, operands, GemmEpilogue::none, context.stream);
  if (operands.residual.valid()) add_in_place(operands.c, operands.residual, context);
  add_bias_in_place(operands.c, bias, context);
}

}  // namespace cgconform::workloads::cuda
