#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cgconform::workloads::cuda {

/// What NVML says of a GPU at one moment; -1 where it does not say.
struct GpuState {
  std::int64_t used_bytes = -1;  ///< of the device's memory, by all processes
  double sm_megahertz = -1.0;
  double memory_megahertz = -1.0;
  double temperature_celsius = -1.0;
};

/// One GPU seen through NVML, the driver's management library, which is looked for at run time.
/// Where it is not there, or refuses, nothing is known and nothing fails.
class NvmlDevice {
 public:
  /// `uuid` as in "GPU-0b5a...".
  explicit NvmlDevice(const std::string& uuid);
  ~NvmlDevice();
  NvmlDevice(const NvmlDevice&) = delete;
  NvmlDevice& operator=(const NvmlDevice&) = delete;

  bool available() const;
  GpuState state() const;
  /// Bytes of the device's memory that this process holds; -1 where NVML does not tell processes
  /// apart, or does not know this one's number, as in some containers.
  std::int64_t bytes_of_this_process() const;
  /// Numbers of the Xid errors that the driver reported since the last call.
  std::vector<std::uint64_t> take_xids();

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace cgconform::workloads::cuda
