#include "workloads/allocator/caching_allocator.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "workloads/allocator/address_ledger.hpp"
#include "workloads/allocator/memory_pool.hpp"
#include "workloads/device/errors.hpp"

namespace cgconform::workloads {

class CachingAllocator::Impl {
 public:
  Impl(SegmentSource& source, std::int64_t guard_bytes)
      : source_(source), guard_bytes_(guard_bytes) {
    create_pool("default");
  }

  PoolId create_pool(std::string name) {
    const PoolId id = next_pool_++;
    pools_.emplace(id, MemoryPool(source_, std::move(name), id, guard_bytes_));
    return id;
  }

  MemoryPool& pool(PoolId id) {
    const auto found = pools_.find(id);
    if (found == pools_.end()) throw InternalError(fmt::format("there is no memory pool {}", id));
    return found->second;
  }

  void destroy_pool(PoolId id) {
    MemoryPool& gone = pool(id);
    if (id == default_pool) throw InternalError("the default pool cannot be destroyed");
    if (const auto live = gone.statistics().live_blocks; live > 0) {
      throw InternalError(
          fmt::format("pool '{}' is destroyed while {} blocks are live, the first "
                      "is '{}'; free them first",
                      gone.name(), live, gone.live_blocks().front().label));
    }
    trim(id);
    pools_.erase(id);
  }

  Block allocate(std::int64_t bytes, Stream& stream, PoolId id, std::string label) {
    if (bytes < 0) throw InternalError(fmt::format("'{}' asks for {} bytes", label, bytes));
    MemoryPool& from = pool(id);
    // Empty tensors get an address of their own, too.
    const std::int64_t size = std::max<std::int64_t>(bytes, 1);
    auto block = from.take(size, stream, next_generation_, label);
    if (!block) {
      ledger_.add(id, grow(from, size, label));
      block = from.take(size, stream, next_generation_, label);
    }
    if (!block) throw InternalError(fmt::format("a new segment has no room for '{}'", label));
    ++next_generation_;
    return *std::move(block);
  }

  void free(const Block& block, Stream& stream) {
    CarvedSegment* segment = ledger_.segment_of(block.data);
    if (segment == nullptr) {
      throw InternalError(fmt::format("'{}' is freed but not of this allocator", block.label));
    }
    pool(block.pool).give_back(block, *segment, stream);
  }

  void trim(PoolId id) {
    auto unused = pool(id).take_unused();
    if (unused.empty()) return;
    const RelaxedCaptureScope relaxed(source_);
    for (auto& segment : unused) {
      source_.release(segment->segment);
      ledger_.retire(std::move(segment));
    }
  }

  void release_all() noexcept {
    for (auto& [id, pool] : pools_) {
      try {
        trim(id);
      } catch (const std::exception&) {
        // A destructor cannot report; the source keeps the segment and counts it as in use.
      }
    }
  }

  PoolStatistics total_statistics(PoolId left_out) const {
    PoolStatistics total;
    for (const auto& [id, pool] : pools_) {
      if (id == left_out) continue;
      const PoolStatistics& one = pool.statistics();
      total.active_bytes += one.active_bytes;
      total.reserved_bytes += one.reserved_bytes;
      total.peak_active_bytes += one.peak_active_bytes;
      total.peak_reserved_bytes += one.peak_reserved_bytes;
      total.live_blocks += one.live_blocks;
      total.allocations += one.allocations;
    }
    return total;
  }

  AddressRecord look_up(const void* address) const { return ledger_.look_up(address); }

  std::vector<Block> live_blocks() const {
    std::vector<Block> blocks;
    for (const auto& [id, pool] : pools_) {
      auto more = pool.live_blocks();
      std::move(more.begin(), more.end(), std::back_inserter(blocks));
    }
    return blocks;
  }

  std::vector<Block> damaged_guards(Stream& stream) {
    stream.synchronize();
    std::vector<Block> damaged;
    for (auto& [id, pool] : pools_) {
      auto more = pool.damaged_guards(stream);
      std::move(more.begin(), more.end(), std::back_inserter(damaged));
    }
    return damaged;
  }

  std::uint64_t guard_bands() const {
    std::uint64_t bands = 0;
    for (const auto& [id, pool] : pools_) bands += pool.guard_bands();
    return bands;
  }

  std::vector<Block> written_when_free(Stream& stream) {
    stream.synchronize();
    std::vector<Block> written;
    for (auto& [id, pool] : pools_) {
      auto more = pool.written_when_free();
      std::move(more.begin(), more.end(), std::back_inserter(written));
    }
    return written;
  }

 private:
  // Captures end up here, too, so the thread takes the relaxed mode for the raw call.
  CarvedSegment& grow(MemoryPool& pool, std::int64_t bytes, const std::string& label) {
    const RelaxedCaptureScope relaxed(source_);
    try {
      return pool.grow(bytes);
    } catch (const DeviceError& error) {
      if (error.category() != ErrorCategory::memory_allocation) throw;
    }
    trim(default_pool);
    try {
      return pool.grow(bytes);
    } catch (const DeviceError& error) {
      if (error.category() != ErrorCategory::memory_allocation) throw;
      throw DeviceError(
          error.category(), "allocate",
          fmt::format("'{}' needs {} bytes, pool '{}' holds {} of which {} are active: {}", label,
                      bytes, pool.name(), pool.statistics().reserved_bytes,
                      pool.statistics().active_bytes, error.what()));
    }
  }

  SegmentSource& source_;
  std::int64_t guard_bytes_;
  std::map<PoolId, MemoryPool> pools_;
  AddressLedger ledger_;
  PoolId next_pool_ = default_pool;
  std::uint64_t next_generation_ = 1;
};

CachingAllocator::CachingAllocator(SegmentSource& source, std::int64_t guard_bytes)
    : impl_(std::make_unique<Impl>(source, guard_bytes)) {}

CachingAllocator::~CachingAllocator() {
  impl_->release_all();
}

PoolId CachingAllocator::create_pool(std::string name) {
  return impl_->create_pool(std::move(name));
}
void CachingAllocator::destroy_pool(PoolId pool) {
  impl_->destroy_pool(pool);
}
Block CachingAllocator::allocate(std::int64_t bytes, Stream& stream, PoolId pool,
                                 std::string label) {
  return impl_->allocate(bytes, stream, pool, std::move(label));
}
void CachingAllocator::free(const Block& block, Stream& stream) {
  impl_->free(block, stream);
}
void CachingAllocator::trim(PoolId pool) {
  impl_->trim(pool);
}
PoolStatistics CachingAllocator::statistics(PoolId pool) const {
  return impl_->pool(pool).statistics();
}
PoolStatistics CachingAllocator::total_statistics(PoolId left_out) const {
  return impl_->total_statistics(left_out);
}
AddressRecord CachingAllocator::look_up(const void* address) const {
  return impl_->look_up(address);
}
std::vector<Block> CachingAllocator::live_blocks() const {
  return impl_->live_blocks();
}
void CachingAllocator::poison_free_blocks(PoolId pool, std::uint8_t byte, Stream& stream) {
  impl_->pool(pool).poison(byte, stream);
}
std::vector<Block> CachingAllocator::damaged_guards(Stream& stream) {
  return impl_->damaged_guards(stream);
}
std::uint64_t CachingAllocator::guard_bands() const {
  return impl_->guard_bands();
}
std::vector<Block> CachingAllocator::written_when_free(Stream& stream) {
  return impl_->written_when_free(stream);
}

}  // namespace cgconform::workloads
