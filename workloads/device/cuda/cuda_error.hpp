#pragma once

#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "workloads/device/errors.hpp"

namespace cgconform::workloads::cuda {

/// Throws DeviceError with the runtime's category, the expression, file and line, and clears the
/// thread's last error unless it is sticky. Does nothing on success.
void check(cudaError_t status, const char* expression, const char* file, int line);
void check(CUresult status, const char* expression, const char* file, int line);
void check(ncclResult_t status, const char* expression, const char* file, int line);

/// The category of a runtime status; the runtime's numbers are the categories' own.
ErrorCategory category_of(cudaError_t status);
ErrorCategory category_of(CUresult status);
ErrorCategory category_of(ncclResult_t status);

}  // namespace cgconform::workloads::cuda

/// Evaluates a CUDA runtime, driver or NCCL call and throws DeviceError where it fails.
#define CGCONFORM_CUDA_TRY(expression) \
  ::cgconform::workloads::cuda::check((expression), #expression, __FILE__, __LINE__)
