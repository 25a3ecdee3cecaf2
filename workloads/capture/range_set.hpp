#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <unordered_set>
#include <vector>

namespace cgconform::workloads {

/// Memory from `begin` on, up to `end`.
struct MemoryRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

/// Ranges of memory, to be asked whether one of them overlaps another range.
class RangeSet {
 public:
  void add(const MemoryRange& range) {
    ranges_.push_back(range);
    if (range.end > range.begin) begins_.insert(range.begin);
  }
  /// True where a range that is not empty begins where `range` does: quick, and mostly enough.
  bool begins_with(const MemoryRange& range) const {
    return range.end > range.begin && begins_.contains(range.begin);
  }
  bool overlaps(const MemoryRange& range) const {
    if (begins_with(range)) return true;
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const MemoryRange& other) {
      return other.begin < range.end && range.begin < other.end;
    });
  }

 private:
  std::vector<MemoryRange> ranges_;
  std::pmr::monotonic_buffer_resource memory_;
  std::pmr::unordered_set<const std::byte*> begins_{&memory_};
};

}  // namespace cgconform::workloads
