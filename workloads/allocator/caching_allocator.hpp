#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/allocator/segment_source.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// Pool 0 is the default (eager) pool; others are private graph pools.
using PoolId = std::uint32_t;
constexpr PoolId default_pool = 0;

/// One allocation. `generation` is unique for the allocator's life: the same address handed out
/// again has another generation.
struct Block {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;     ///< as asked for
  std::int64_t capacity = 0;  ///< as carved, guard bands included
  PoolId pool = default_pool;
  std::uint64_t generation = 0;
  std::string label;
};

struct PoolStatistics {
  std::int64_t active_bytes = 0;
  std::int64_t reserved_bytes = 0;
  std::int64_t peak_active_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t live_blocks = 0;
  std::uint64_t allocations = 0;
};

enum class AddressState : std::uint8_t { live, freed, guard, unknown };

/// What the allocator knows of an address range: the ledger entry that covers it, live or retired.
struct AddressRecord {
  AddressState state = AddressState::unknown;
  std::uint64_t generation = 0;
  PoolId pool = default_pool;
  std::string_view label;  ///< until the allocator is called again
};

/// A caching allocator with stream-ordered reuse and private graph pools, as PyTorch's. Blocks
/// freed on a stream are reused by later allocations of the same stream and pool without
/// synchronisation. Every range ever handed out stays in the address ledger.
class CachingAllocator {
 public:
  CachingAllocator(SegmentSource& source, std::int64_t guard_bytes = 64);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  PoolId create_pool(std::string name);
  /// Returns the pool's segments to the source; throws InternalError while blocks of it are live.
  void destroy_pool(PoolId pool);

  /// A block of at least `bytes`, 256-byte aligned, ordered after earlier work of `stream`.
  Block allocate(std::int64_t bytes, Stream& stream, PoolId pool, std::string label);
  void free(const Block& block, Stream& stream);
  /// Releases unused segments of a pool to the source.
  void trim(PoolId pool);

  PoolStatistics statistics(PoolId pool) const;
  /// Sums over all pools but `left_out`. The peaks are sums of the pools' own peaks.
  PoolStatistics total_statistics(PoolId left_out) const;
  AddressRecord look_up(const void* address) const;
  std::vector<Block> live_blocks() const;

  /// Enqueues a fill of every free byte of the pool with `byte`. Ordered on `stream` alone: other
  /// streams that use the pool must wait for it.
  void poison_free_blocks(PoolId pool, std::uint8_t byte, Stream& stream);
  /// Synchronises and returns the blocks, live or freed, whose guard bands were overwritten;
  /// restores the bands, so that each damage is returned once.
  std::vector<Block> damaged_guards(Stream& stream);
  /// Guard bands of all blocks, live or freed.
  std::uint64_t guard_bands() const;
  /// Synchronises and returns places behind the last block of a segment that hold something else
  /// than what `poison_free_blocks` last wrote there.
  std::vector<Block> written_when_free(Stream& stream);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// An owned block with a tensor's type and shape; frees itself on its stream.
class Buffer {
 public:
  Buffer() = default;
  Buffer(CachingAllocator& allocator, Stream& stream, PoolId pool, DType dtype, const Shape& shape,
         std::string label);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const TensorView& view() const { return view_; }
  const Block& block() const { return block_; }
  bool valid() const { return view_.valid(); }
  void reset();

 private:
  CachingAllocator* allocator_ = nullptr;
  Stream* stream_ = nullptr;
  Block block_;
  TensorView view_;
};

}  // namespace cgconform::workloads
