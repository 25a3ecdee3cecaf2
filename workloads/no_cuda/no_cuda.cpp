// Stands for the CUDA parts in programs that never touch a GPU, and in builds without CUDA.
#include <string>

#include "workloads/device/cuda/cuda_device.hpp"
#include "workloads/device/errors.hpp"
#include "workloads/ops/cuda/kernels.hpp"

namespace cgconform::workloads {

namespace {

[[noreturn]] void refuse(const char* what) {
  throw DeviceError(ErrorCategory::not_supported, what,
                    std::string(what) + ": this program was built without CUDA");
}

}  // namespace

std::unique_ptr<Device> create_cuda_device(const CudaDeviceOptions& /*options*/) {
  refuse("create_cuda_device");
}

int cuda_device_count() {
  return 0;
}

std::string cuda_device_uuid(int /*ordinal*/) {
  return {};
}

namespace cuda {

#define CGCONFORM_REFUSE_CUDA_KERNEL(name)                              \
  void name(const OpCall& /*call*/, const LaunchContext& /*context*/) { \
    refuse(#name);                                                      \
  }
CGCONFORM_FOR_EACH_CUDA_KERNEL(CGCONFORM_REFUSE_CUDA_KERNEL)
#undef CGCONFORM_REFUSE_CUDA_KERNEL

}  // namespace cuda

}  // namespace cgconform::workloads
