#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cgconform::workloads {

/// A range of device memory obtained from the device.
struct Segment {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

/// Where an allocator gets memory: the device's raw allocation. Interchangeable; adaptors wrap one
/// source to add limits, failure injection or statistics.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  virtual std::string_view name() const = 0;
  /// Throws DeviceError memory_allocation where memory is exhausted, and CUDA's category where the
  /// call is refused because the thread captures.
  virtual Segment allocate(std::int64_t bytes) = 0;
  virtual void release(const Segment& segment) = 0;
  /// Makes the range inaccessible while keeping its addresses reserved: any access faults.
  virtual void unmap(const Segment& segment) = 0;
  /// True where the address lies in a range this source ever handed out.
  virtual bool owns(const void* address) const = 0;
  /// Bytes handed out and not released.
  virtual std::int64_t bytes_in_use() const = 0;
};

}  // namespace cgconform::workloads
