#include "workloads/allocator/segment_kind.hpp"

#include <fmt/format.h>

#include "matrix/cell.hpp"
#include "matrix/error.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::workloads {

std::string_view segment_kind_name(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::plain:
      return "plain";
    case SegmentKind::expandable:
      return "expandable";
    case SegmentKind::stream_ordered:
      return "stream-ordered";
  }
  return "plain";
}

SegmentSource& segments_of(Device& device, SegmentKind kind) {
  if (auto* sources = dynamic_cast<SegmentSources*>(&device)) return sources->segments(kind);
  if (kind == SegmentKind::plain) return device.segment_source();
  throw InternalError(fmt::format("device {} has no {} segments", device.properties().name,
                                  segment_kind_name(kind)));
}

SegmentKind segment_kind_of(const matrix::Cell& cell) {
  if (cell.platform.expandable_segments) return SegmentKind::expandable;
  return cell.platform.stream_ordered_segments ? SegmentKind::stream_ordered : SegmentKind::plain;
}

bool spans_chunks(const SegmentSource& source, const void* data, std::int64_t bytes) {
  const auto* chunked = dynamic_cast<const ChunkedSource*>(&source);
  if (chunked == nullptr || bytes <= 0) return false;
  const auto chunk = static_cast<std::uintptr_t>(chunked->chunk_bytes());
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const auto last = first + static_cast<std::uintptr_t>(bytes) - 1;
  return first / chunk != last / chunk;
}

}  // namespace cgconform::workloads
