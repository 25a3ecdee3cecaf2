#pragma once

#include <cuda.h>

namespace cgconform::workloads::cuda {

/// The driver calls in use, looked up through the runtime, so that programs start on machines
/// without a driver.
struct DriverApi {
  decltype(&::cuGetErrorName) get_error_name = nullptr;
  decltype(&::cuGetErrorString) get_error_string = nullptr;
  decltype(&::cuMemGetAllocationGranularity) get_granularity = nullptr;
  decltype(&::cuMemAddressReserve) address_reserve = nullptr;
  decltype(&::cuMemAddressFree) address_free = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
};

/// The driver's calls; looked up once. Throws DeviceError where the driver lacks one.
const DriverApi& driver();

}  // namespace cgconform::workloads::cuda
