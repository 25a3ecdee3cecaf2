#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// A range of device memory obtained from the device.
struct Segment {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

/// A range of addresses. Plain data: safe to keep for and use in a signal handler.
struct AddressRange {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool contains(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= begin && byte < begin + bytes;
  }
};

/// A point in a stream's order, for an allocator that hands a block to another stream.
class StreamPoint {
 public:
  virtual ~StreamPoint() = default;
  /// True once the stream's work before the point ended. Allowed in capture.
  virtual bool passed() const = 0;
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
  /// Waits for the work of all streams, as cudaFree does, and takes the range back.
  virtual void release(const Segment& segment) = 0;
  /// Makes the range inaccessible while keeping its addresses reserved: any access faults.
  virtual void unmap(const Segment& segment) = 0;
  /// True where the address lies in a range this source hands segments out of.
  virtual bool owns(const void* address) const = 0;
  /// Bytes handed out and not released.
  virtual std::int64_t bytes_in_use() const = 0;

  /// The addresses that segments of this source lie in, reserved for the source's life; empty where
  /// the source does not know. A crash handler tells from it whether a fault was in device memory.
  virtual AddressRange range() const = 0;

  /// Swaps the calling thread's capture interaction mode and returns the former one, as
  /// cudaThreadExchangeStreamCaptureMode does. A thread in relaxed mode may allocate in capture.
  virtual CaptureMode exchange_capture_mode(CaptureMode mode) = 0;
  /// Sets bytes for an allocator's own purposes (guard bands, poison): in the stream's order, or at
  /// once where the stream captures. Neither captured nor counted as a launch.
  virtual void mark(std::byte* data, std::int64_t bytes, std::uint8_t value, Stream& stream) = 0;
  /// The present end of the stream's queue; null where the stream captures.
  virtual std::unique_ptr<StreamPoint> point(Stream& stream) = 0;
  /// Copies device bytes to the host at once; the caller has synchronised.
  virtual void inspect(const std::byte* data, std::int64_t bytes, std::byte* host) = 0;
};

/// Puts the calling thread into relaxed capture mode for its lifetime.
class RelaxedCaptureScope {
 public:
  explicit RelaxedCaptureScope(SegmentSource& source)
      : source_(source), former_(source.exchange_capture_mode(CaptureMode::relaxed)) {}
  ~RelaxedCaptureScope() { source_.exchange_capture_mode(former_); }
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  SegmentSource& source_;
  CaptureMode former_;
};

}  // namespace cgconform::workloads
