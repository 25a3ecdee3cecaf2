#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "workloads/allocator/source_adaptors.hpp"

namespace cgconform::workloads {

/// Where a block lies in its segment: beside others, or alone, at the segment's end or start.
enum class BlockPlacement : std::uint8_t { packed, at_end, at_start };

/// Segments with memory that cannot be accessed before and behind each. An allocator over such a
/// source gives every block a segment of its own. The wrapped source must be one of which `unmap`
/// also takes a part of a segment.
class GuardedSource final : public SourceAdaptor {
 public:
  /// `placement` is not packed.
  GuardedSource(SegmentSource& source, BlockPlacement placement);

  std::string_view name() const override { return "guarded mappings"; }
  Segment allocate(std::int64_t bytes) override;
  void release(const Segment& segment) override;
  std::int64_t bytes_in_use() const override { return in_use_; }

  BlockPlacement placement() const { return placement_; }

 private:
  BlockPlacement placement_;
  std::int64_t granule_ = 0;  ///< bytes of the smallest segment: the wrapped source's page
  std::int64_t in_use_ = 0;
  std::map<const std::byte*, Segment> whole_;  ///< by the start of the part handed out
};

/// How an allocator over this source places its blocks.
BlockPlacement placement_of(const SegmentSource& source);

}  // namespace cgconform::workloads
