#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "workloads/device/device.hpp"

namespace cgconform::workloads {

struct CudaDeviceOptions {
  int ordinal = 0;                                   ///< among the devices this process sees
  std::int64_t chunk_bytes = std::int64_t{2} << 20;  ///< of expandable segments, a handle each
  /// Other processes of the run use the GPU too: what the device as a whole has free then says
  /// nothing of this one.
  bool shared = false;
  ProgressSink* progress = nullptr;  ///< may be null
};

/// Makes the GPU current on the calling thread and creates its context. Throws DeviceError where
/// there is no such device or the driver does not answer.
std::unique_ptr<Device> create_cuda_device(const CudaDeviceOptions& options);

/// Devices this process sees; 0 where there is no driver. Never throws.
int cuda_device_count();

/// The unique id of a device of this process, "GPU-...", without a context on it; empty where there
/// is none. Never throws.
std::string cuda_device_uuid(int ordinal);

}  // namespace cgconform::workloads
