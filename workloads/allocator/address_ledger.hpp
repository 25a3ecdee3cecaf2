#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "workloads/allocator/memory_pool.hpp"

namespace cgconform::workloads {

/// Every range an allocator ever handed out: segments in use, and retired ones with the blocks they
/// last held. An address in both is the one in use. Look-up is two binary searches.
class AddressLedger {
 public:
  void add(PoolId pool, CarvedSegment& segment);
  /// Keeps a segment that was released to its source.
  void retire(std::unique_ptr<CarvedSegment> segment);
  /// The segment in use that covers the address, or null.
  CarvedSegment* segment_of(const std::byte* address) const;
  AddressRecord look_up(const void* address) const;

 private:
  struct Entry {
    PoolId pool = default_pool;
    CarvedSegment* segment = nullptr;
  };
  static std::vector<Entry>::const_iterator covering(const std::vector<Entry>& entries,
                                                     const std::byte* address);

  std::vector<Entry> in_use_;   ///< by address, disjoint
  std::vector<Entry> retired_;  ///< by address, disjoint: a later one replaces what it overlaps
  std::vector<std::unique_ptr<CarvedSegment>> kept_;  ///< owns the segments of `retired_`
};

}  // namespace cgconform::workloads
