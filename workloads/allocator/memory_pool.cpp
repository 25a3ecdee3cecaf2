#include "workloads/allocator/memory_pool.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::int64_t alignment = 256;
/// Of blocks that end where their mapping does: what kernels read at once.
constexpr std::int64_t edge_alignment = 16;
constexpr std::int64_t segment_bytes = std::int64_t{2} << 20;
/// The default pool grows by as much as it has, so that it makes few segments; up to this.
constexpr std::int64_t largest_growth = std::int64_t{32} << 20;
constexpr std::uint8_t guard_pattern = 0xA5;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

const Slot* CarvedSegment::find(const std::byte* address) const {
  const std::int64_t offset = address - segment.data;
  auto next = std::upper_bound(slots.begin(), slots.end(), offset,
                               [](std::int64_t at, const Slot& slot) { return at < slot.offset; });
  if (next == slots.begin()) return nullptr;
  --next;
  return offset < next->offset + next->stride ? &*next : nullptr;
}

MemoryPool::MemoryPool(SegmentSource& source, std::string name, PoolId id, std::int64_t guard_bytes)
    : source_(source),
      name_(std::move(name)),
      id_(id),
      guard_bytes_(guard_bytes),
      placement_(placement_of(source)) {}

std::int64_t MemoryPool::front_guard() const {
  return round_up(guard_bytes_, alignment);
}

std::int64_t MemoryPool::stride(std::int64_t bytes) const {
  if (placement_ != BlockPlacement::packed) return round_up(bytes, edge_alignment);
  return round_up(front_guard() + bytes + guard_bytes_, alignment);
}

std::optional<Slot> MemoryPool::place(const CarvedSegment& segment, std::int64_t bytes) const {
  const std::int64_t needed = stride(bytes);
  const std::int64_t rest = segment.segment.bytes - segment.carved;
  if (rest < needed) return std::nullopt;
  Slot slot{.offset = segment.carved, .front = front_guard(), .bytes = bytes, .stride = needed};
  if (placement_ == BlockPlacement::packed) return slot;
  if (segment.carved > 0) return std::nullopt;
  slot.front = placement_ == BlockPlacement::at_end ? rest - needed : 0;
  slot.stride = rest;
  return slot;
}

Block MemoryPool::describe(const CarvedSegment& segment, const Slot& slot) const {
  return {.data = segment.payload(slot),
          .bytes = slot.bytes,
          .capacity = slot.stride,
          .pool = id_,
          .generation = slot.generation,
          .label = {}};
}

Block MemoryPool::make_block(const CarvedSegment& segment, const Slot& slot) const {
  Block block = describe(segment, slot);
  block.label = slot.label;
  return block;
}

Block MemoryPool::activate(CarvedSegment& segment, std::size_t index, std::uint64_t generation,
                           std::string& label) {
  Slot& slot = segment.slots[index];
  slot.live = true;
  slot.generation = generation;
  slot.label = label;
  ++segment.live;
  ++statistics_.live_blocks;
  ++statistics_.allocations;
  statistics_.active_bytes += slot.bytes;
  statistics_.peak_active_bytes = std::max(statistics_.peak_active_bytes, statistics_.active_bytes);
  Block block = describe(segment, slot);
  block.label = std::move(label);
  return block;
}

std::optional<Block> MemoryPool::take(std::int64_t bytes, Stream& stream, std::uint64_t generation,
                                      std::string& label) {
  if (const auto found = free_.find(bytes); found != free_.end()) {
    auto& candidates = found->second;
    // The last freed block is the one most likely in the cache.
    for (std::size_t index = candidates.size(); index-- > 0;) {
      const FreeSlot& candidate = candidates[index];
      const bool usable = candidate.stream == stream.id() ||
                          (candidate.point != nullptr && candidate.point->passed());
      if (!usable) continue;
      CarvedSegment& segment = *candidate.segment;
      const std::size_t slot = candidate.index;
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(index));
      return activate(segment, slot, generation, label);
    }
  }
  for (const auto& segment : segments_) {
    if (auto block = carve(*segment, bytes, stream, generation, label)) return block;
  }
  // Graph pools keep every place: a captured graph may use it at its next replay.
  if (id_ != default_pool) return std::nullopt;
  for (const auto& segment : segments_) {
    if (segment->segment.bytes < stride(bytes) || !recycle(*segment, stream)) continue;
    return carve(*segment, bytes, stream, generation, label);
  }
  return std::nullopt;
}

std::optional<Block> MemoryPool::carve(CarvedSegment& segment, std::int64_t bytes, Stream& stream,
                                       std::uint64_t generation, std::string& label) {
  const std::optional<Slot> placed = place(segment, bytes);
  if (!placed) return std::nullopt;
  const Slot& slot = *placed;
  segment.carved += slot.stride;
  segment.slots.push_back(slot);
  if (guard_bytes_ > 0) {
    std::byte* payload = segment.payload(slot);
    source_.mark(payload - slot.front, slot.front, guard_pattern, stream);
    source_.mark(payload + bytes, slot.stride - slot.front - bytes, guard_pattern, stream);
  }
  return activate(segment, segment.slots.size() - 1, generation, label);
}

bool MemoryPool::recycle(CarvedSegment& segment, const Stream& stream) {
  if (segment.live > 0 || segment.slots.empty()) return false;
  for (const auto& [bytes, candidates] : free_) {
    for (const FreeSlot& candidate : candidates) {
      if (candidate.segment == &segment && candidate.stream != stream.id()) return false;
    }
  }
  drop_free_slots(segment);
  segment.slots.clear();
  segment.carved = 0;
  segment.poison.reset();
  return true;
}

void MemoryPool::drop_free_slots(const CarvedSegment& segment) {
  for (auto entry = free_.begin(); entry != free_.end();) {
    auto& candidates = entry->second;
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                    [&](const FreeSlot& free) { return free.segment == &segment; }),
                     candidates.end());
    entry = candidates.empty() ? free_.erase(entry) : std::next(entry);
  }
}

Segment MemoryPool::allocate_segment(std::int64_t least) {
  const std::int64_t growth = std::min(statistics_.reserved_bytes, largest_growth);
  if (id_ == default_pool && growth > least) {
    try {
      return source_.allocate(round_up(growth, segment_bytes));
    } catch (const DeviceError& error) {
      if (error.category() != ErrorCategory::memory_allocation) throw;
    }
  }
  return source_.allocate(least);
}

CarvedSegment& MemoryPool::grow(std::int64_t bytes) {
  auto segment = std::make_unique<CarvedSegment>();
  const bool packed = placement_ == BlockPlacement::packed;
  segment->segment = packed ? allocate_segment(round_up(stride(bytes), segment_bytes))
                            : source_.allocate(stride(bytes));
  statistics_.reserved_bytes += segment->segment.bytes;
  statistics_.peak_reserved_bytes =
      std::max(statistics_.peak_reserved_bytes, statistics_.reserved_bytes);
  segments_.push_back(std::move(segment));
  return *segments_.back();
}

void MemoryPool::give_back(const Block& block, CarvedSegment& segment, Stream& stream) {
  const Slot* found = segment.find(block.data);
  if (found == nullptr || !found->live || found->generation != block.generation) {
    throw InternalError(fmt::format("'{}' (generation {}) of pool '{}' is freed but not live",
                                    block.label, block.generation, name_));
  }
  const auto index = static_cast<std::size_t>(found - segment.slots.data());
  Slot& slot = segment.slots[index];
  slot.live = false;
  --segment.live;
  --statistics_.live_blocks;
  statistics_.active_bytes -= slot.bytes;
  streams_.insert(stream.id());
  free_[slot.bytes].push_back({.segment = &segment,
                               .index = index,
                               .stream = stream.id(),
                               .point = streams_.size() > 1 ? source_.point(stream) : nullptr});
}

std::vector<std::unique_ptr<CarvedSegment>> MemoryPool::take_unused() {
  std::vector<std::unique_ptr<CarvedSegment>> unused;
  for (auto& segment : segments_) {
    if (segment->live > 0) continue;
    drop_free_slots(*segment);
    statistics_.reserved_bytes -= segment->segment.bytes;
    unused.push_back(std::move(segment));
  }
  segments_.erase(std::remove(segments_.begin(), segments_.end(), nullptr), segments_.end());
  return unused;
}

std::vector<Block> MemoryPool::live_blocks() const {
  std::vector<Block> blocks;
  for (const auto& segment : segments_) {
    for (const Slot& slot : segment->slots) {
      if (slot.live) blocks.push_back(make_block(*segment, slot));
    }
  }
  return blocks;
}

void MemoryPool::poison(std::uint8_t byte, Stream& stream) {
  for (const auto& segment : segments_) {
    for (const Slot& slot : segment->slots) {
      if (!slot.live) source_.mark(segment->payload(slot), slot.bytes, byte, stream);
    }
    const std::int64_t rest = segment->segment.bytes - segment->carved;
    if (rest > 0) source_.mark(segment->segment.data + segment->carved, rest, byte, stream);
    segment->poison = byte;
  }
}

bool MemoryPool::restore_guards(const CarvedSegment& segment, const Slot& slot, Stream& stream) {
  std::byte* payload = segment.payload(slot);
  const std::pair<std::byte*, std::int64_t> bands[] = {
      {payload - slot.front, slot.front},
      {payload + slot.bytes, slot.stride - slot.front - slot.bytes}};
  bool damaged = false;
  std::vector<std::byte> seen;
  for (const auto& [data, bytes] : bands) {
    seen.resize(static_cast<std::size_t>(bytes));
    source_.inspect(data, bytes, seen.data());
    const bool intact = std::all_of(
        seen.begin(), seen.end(), [](std::byte byte) { return byte == std::byte{guard_pattern}; });
    if (intact) continue;
    damaged = true;
    source_.mark(data, bytes, guard_pattern, stream);
  }
  return damaged;
}

std::vector<Block> MemoryPool::damaged_guards(Stream& stream) {
  std::vector<Block> damaged;
  if (guard_bytes_ == 0) return damaged;
  for (const auto& segment : segments_) {
    for (const Slot& slot : segment->slots) {
      if (restore_guards(*segment, slot, stream)) damaged.push_back(make_block(*segment, slot));
    }
  }
  return damaged;
}

std::uint64_t MemoryPool::guard_bands() const {
  constexpr std::uint64_t bands_a_block = 2;
  std::uint64_t blocks = 0;
  for (const auto& segment : segments_) blocks += segment->slots.size();
  return guard_bytes_ == 0 ? 0 : blocks * bands_a_block;
}

std::vector<Block> MemoryPool::written_when_free() {
  std::vector<Block> written;
  std::vector<std::byte> seen;
  for (const auto& segment : segments_) {
    // What is written past the last block lands near it.
    constexpr std::int64_t inspected = std::int64_t{64} << 10;
    const std::int64_t rest = std::min(inspected, segment->segment.bytes - segment->carved);
    if (!segment->poison || rest <= 0) continue;
    std::byte* begin = segment->segment.data + segment->carved;
    seen.resize(static_cast<std::size_t>(rest));
    source_.inspect(begin, rest, seen.data());
    const auto changed = std::find_if(seen.begin(), seen.end(), [&](std::byte byte) {
      return byte != std::byte{*segment->poison};
    });
    if (changed == seen.end()) continue;
    written.push_back({.data = begin + (changed - seen.begin()),
                       .bytes = static_cast<std::int64_t>(seen.end() - changed),
                       .pool = id_,
                       .label = "never handed out"});
  }
  return written;
}

}  // namespace cgconform::workloads
