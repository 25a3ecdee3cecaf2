#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "workloads/device/device.hpp"

namespace cgconform::workloads {

/// Where a device gets its segments from.
enum class CudaSegments : std::uint8_t { plain, expandable };

struct CudaDeviceOptions {
  int ordinal = 0;  ///< among the devices this process sees
  CudaSegments segments = CudaSegments::plain;
  std::int64_t chunk_bytes = std::int64_t{2} << 20;      ///< expandable segments only
  std::int64_t reserved_bytes = std::int64_t{64} << 30;  ///< address range of expandable segments
  ProgressSink* progress = nullptr;                      ///< may be null
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
