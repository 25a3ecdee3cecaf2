#include "workloads/device/cuda/cuda_driver.hpp"

#include <string>

#include <cuda_runtime_api.h>

#include "workloads/device/errors.hpp"

namespace cgconform::workloads::cuda {

namespace {

template <typename Function>
void look_up(const char* name, Function& function) {
  constexpr unsigned api_version = 12000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &found, api_version, cudaEnableDefault, &result);
  if (status != cudaSuccess || result != cudaDriverEntryPointSuccess) {
    throw DeviceError(ErrorCategory::not_supported, name,
                      std::string("the CUDA driver has no ") + name +
                          "; a driver of CUDA 12.0 or newer is needed");
  }
  function = reinterpret_cast<Function>(found);
}

DriverApi load() {
  DriverApi api;
  look_up("cuGetErrorName", api.get_error_name);
  look_up("cuGetErrorString", api.get_error_string);
  look_up("cuMemGetAllocationGranularity", api.get_granularity);
  look_up("cuMemAddressReserve", api.address_reserve);
  look_up("cuMemAddressFree", api.address_free);
  look_up("cuMemCreate", api.create);
  look_up("cuMemRelease", api.release);
  look_up("cuMemMap", api.map);
  look_up("cuMemUnmap", api.unmap);
  look_up("cuMemSetAccess", api.set_access);
  return api;
}

}  // namespace

const DriverApi& driver() {
  static const DriverApi api = load();
  return api;
}

}  // namespace cgconform::workloads::cuda
