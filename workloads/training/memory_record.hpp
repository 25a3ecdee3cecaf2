#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/device/resource_use.hpp"

namespace cgconform::workloads {

/// What a leg, its device and its process hold at one moment at which nothing runs.
struct MemorySample {
  bool taken = false;
  bool by_driver = false;  ///< a GPU's driver allocates on this process's heap, too
  ResourceUse device;
  std::int64_t used_bytes = 0;  ///< Device::used_bytes(); 0 where the process was not looked at
  HostUse host;
  std::int64_t live_blocks = 0;     ///< of all pools but that of observations
  std::int64_t active_bytes = 0;    ///< in those blocks
  std::int64_t reserved_bytes = 0;  ///< in the segments of those pools
};

/// One round of capture, replay and destruction.
struct CycleRecord {
  std::uint64_t captures = 0;
  std::uint64_t replays = 0;
  MemorySample after;  ///< everything of the cycle destroyed, unused segments released
};

/// How a leg was torn down.
struct TeardownRecord {
  bool done = false;
  /// Memory a graph uses that was gone when the graph was destroyed, in words.
  std::vector<std::string> lost_operands;
  std::uint64_t operands = 0;                ///< looked at when graphs were destroyed
  std::uint64_t captured_nodes_after = 0;    ///< by captures that began after the destruction
  std::int64_t communicator_references = 0;  ///< of graphs on the gang's communicator, afterwards
};

}  // namespace cgconform::workloads
