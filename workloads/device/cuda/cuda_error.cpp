#include "workloads/device/cuda/cuda_error.hpp"

#include <string_view>

#include <fmt/format.h>

#include "workloads/device/cuda/cuda_driver.hpp"

namespace cgconform::workloads::cuda {

namespace {

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// "cudaMalloc" of "cudaMalloc(&pointer, bytes)".
std::string call_name(std::string_view expression) {
  return std::string(expression.substr(0, expression.find('(')));
}

/// The context's error where it has ended. Libraries then fail in their own words, which would hide
/// the cause.
cudaError_t context_error() {
  cudaError_t status = cudaPeekAtLastError();
  if (!ends_context(category_of(status))) status = cudaStreamQuery(cudaStreamLegacy);
  cudaGetLastError();
  return ends_context(category_of(status)) ? status : cudaSuccess;
}

[[noreturn]] void fail(ErrorCategory category, std::string_view name, std::string_view text,
                       const char* expression, const char* file, int line) {
  throw DeviceError(
      category, call_name(expression),
      fmt::format("{}: {} (in {}, {}:{})", name, text, expression, file_name(file), line));
}

}  // namespace

ErrorCategory category_of(cudaError_t status) {
  return static_cast<ErrorCategory>(status);
}

ErrorCategory category_of(CUresult status) {
  return static_cast<ErrorCategory>(status);
}

ErrorCategory category_of(ncclResult_t status) {
  switch (status) {
    case ncclSuccess:
    case ncclInProgress:
      return ErrorCategory::success;
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return ErrorCategory::communicator_invalid_usage;
    default:
      return ErrorCategory::communicator_error;
  }
}

void check(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  fail(category_of(status), cudaGetErrorName(status), cudaGetErrorString(status), expression, file,
       line);
}

void check(CUresult status, const char* expression, const char* file, int line) {
  if (status == CUDA_SUCCESS) return;
  const char* name = nullptr;
  const char* text = nullptr;
  driver().get_error_name(status, &name);
  driver().get_error_string(status, &text);
  fail(category_of(status), name == nullptr ? "unknown driver error" : name,
       text == nullptr ? "no description" : text, expression, file, line);
}

void check(ncclResult_t status, const char* expression, const char* file, int line) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  check(context_error(), expression, file, line);
  fail(category_of(status), ncclGetErrorString(status), ncclGetLastError(nullptr), expression, file,
       line);
}

}  // namespace cgconform::workloads::cuda
