#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/allocator/guarded_source.hpp"
#include "workloads/allocator/segment_source.hpp"

namespace cgconform::workloads {

/// A block's place in its segment: front guard, payload, back guard. Places are carved once and
/// never split or joined, so a guard band is never another block's payload, also not in another
/// graph that shares the pool.
struct Slot {
  std::int64_t offset = 0;  ///< of the front guard, in the segment
  std::int64_t front = 0;   ///< bytes of the front guard
  std::int64_t bytes = 0;   ///< of the payload
  std::int64_t stride = 0;  ///< of the whole place
  bool live = false;
  std::uint64_t generation = 0;
  std::string label;
};

/// A segment and the places carved from it, in address order.
struct CarvedSegment {
  Segment segment;
  std::vector<Slot> slots;
  std::int64_t carved = 0;  ///< bytes from the segment's start
  std::int64_t live = 0;    ///< blocks in use
  /// What the rest behind `carved` was last filled with.
  std::optional<std::uint8_t> poison;

  std::byte* payload(const Slot& slot) const { return segment.data + slot.offset + slot.front; }
  /// The place that covers the address, or null.
  const Slot* find(const std::byte* address) const;
};

/// The segments and free blocks of one pool.
class MemoryPool {
 public:
  MemoryPool(SegmentSource& source, std::string name, PoolId id, std::int64_t guard_bytes);

  const std::string& name() const { return name_; }
  const PoolStatistics& statistics() const { return statistics_; }

  /// A free place of exactly `bytes` that work of `stream` may use now, or a new one carved from
  /// the segments held; it takes the label. Nothing where the pool must grow.
  std::optional<Block> take(std::int64_t bytes, Stream& stream, std::uint64_t generation,
                            std::string& label);
  /// Gets a segment that holds a block of `bytes`. Throws what the source throws.
  CarvedSegment& grow(std::int64_t bytes);
  /// Returns a block; throws InternalError where it is not live here.
  void give_back(const Block& block, CarvedSegment& segment, Stream& stream);
  /// Takes the segments without live blocks out of the pool.
  std::vector<std::unique_ptr<CarvedSegment>> take_unused();

  std::vector<Block> live_blocks() const;
  void poison(std::uint8_t byte, Stream& stream);
  /// Blocks, live or freed, whose guards do not hold the pattern; restores the pattern.
  std::vector<Block> damaged_guards(Stream& stream);
  std::uint64_t guard_bands() const;
  /// Segments whose rest, which no block was carved from, does not hold its poison.
  std::vector<Block> written_when_free();

 private:
  /// A segment of at least so many bytes, a multiple of the granularity.
  Segment allocate_segment(std::int64_t least);
  struct FreeSlot {
    CarvedSegment* segment;
    std::size_t index;
    std::uint64_t stream;
    std::unique_ptr<StreamPoint> point;  ///< null: for the same stream only
  };

  /// All of a block but its label.
  Block describe(const CarvedSegment& segment, const Slot& slot) const;
  Block make_block(const CarvedSegment& segment, const Slot& slot) const;
  Block activate(CarvedSegment& segment, std::size_t index, std::uint64_t generation,
                 std::string& label);
  std::optional<Block> carve(CarvedSegment& segment, std::int64_t bytes, Stream& stream,
                             std::uint64_t generation, std::string& label);
  /// Forgets the places of an unused segment, so that other sizes can be carved from it.
  bool recycle(CarvedSegment& segment, const Stream& stream);
  void drop_free_slots(const CarvedSegment& segment);
  /// Where a block of `bytes` goes in the rest of a segment; nothing where it does not fit.
  std::optional<Slot> place(const CarvedSegment& segment, std::int64_t bytes) const;
  std::int64_t front_guard() const;
  std::int64_t stride(std::int64_t bytes) const;
  bool restore_guards(const CarvedSegment& segment, const Slot& slot, Stream& stream);

  SegmentSource& source_;
  std::string name_;
  PoolId id_;
  std::int64_t guard_bytes_;
  BlockPlacement placement_;
  PoolStatistics statistics_;
  std::vector<std::unique_ptr<CarvedSegment>> segments_;
  std::map<std::int64_t, std::vector<FreeSlot>> free_;  ///< by payload bytes
  std::set<std::uint64_t> streams_;                     ///< ids that freed blocks here
};

}  // namespace cgconform::workloads
