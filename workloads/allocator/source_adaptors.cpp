#include "workloads/allocator/source_adaptors.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "workloads/device/errors.hpp"

namespace cgconform::workloads {

Segment LimitingSource::allocate(std::int64_t bytes) {
  if (bytes > limit_ - in_use_) {
    throw DeviceError(
        ErrorCategory::memory_allocation, "segment allocate",
        fmt::format("{} bytes asked for, {} of the limit of {} in use", bytes, in_use_, limit_));
  }
  const Segment segment = source().allocate(bytes);
  in_use_ += segment.bytes;
  return segment;
}

void LimitingSource::release(const Segment& segment) {
  source().release(segment);
  in_use_ -= segment.bytes;
}

Segment FailingSource::allocate(std::int64_t bytes) {
  const std::uint64_t call = calls_++;
  if (refuses_(call, bytes)) {
    throw DeviceError(ErrorCategory::memory_allocation, "segment allocate",
                      fmt::format("call {} for {} bytes was made to fail", call, bytes));
  }
  return source().allocate(bytes);
}

Segment StatisticsSource::allocate(std::int64_t bytes) {
  try {
    const Segment segment = source().allocate(bytes);
    ++statistics_.allocations;
    statistics_.bytes += segment.bytes;
    statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.bytes);
    return segment;
  } catch (const DeviceError&) {
    ++statistics_.failures;
    throw;
  }
}

void StatisticsSource::release(const Segment& segment) {
  source().release(segment);
  ++statistics_.releases;
  statistics_.bytes -= segment.bytes;
}

}  // namespace cgconform::workloads
