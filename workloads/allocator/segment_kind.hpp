#pragma once

#include <cstdint>
#include <string_view>

#include "workloads/allocator/segment_source.hpp"

namespace cgconform::matrix {
struct Cell;
}

namespace cgconform::workloads {

class Device;

/// Ways in which a device hands out the segments of an allocator.
enum class SegmentKind : std::uint8_t {
  plain,          ///< one allocation a segment (cudaMalloc)
  expandable,     ///< mappings of small physical chunks, so that one buffer can span several
  stream_ordered  ///< from a memory pool in stream order (cudaMallocAsync)
};
std::string_view segment_kind_name(SegmentKind kind);

/// The part of a device that has sources of each kind. Each is made at its first use and lives as
/// long as the device.
class SegmentSources {
 public:
  virtual ~SegmentSources() = default;
  virtual SegmentSource& segments(SegmentKind kind) = 0;
};

/// Segments of the kind. Throws InternalError where the device has plain ones only.
SegmentSource& segments_of(Device& device, SegmentKind kind);

/// Where the allocators of a cell's legs get their segments from.
SegmentKind segment_kind_of(const matrix::Cell& cell);

/// Segments whose memory consists of chunks, each behind a handle of its own.
class ChunkedSource {
 public:
  virtual ~ChunkedSource() = default;
  /// Bytes of a chunk; chunks lie at multiples of it.
  virtual std::int64_t chunk_bytes() const = 0;
};

/// True where the bytes lie in more than one chunk of the source; false where it has no chunks.
bool spans_chunks(const SegmentSource& source, const void* data, std::int64_t bytes);

}  // namespace cgconform::workloads
