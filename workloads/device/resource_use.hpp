#pragma once

#include <cstdint>

namespace cgconform::workloads {

/// What a device holds for this process, as the device itself counts it.
struct ResourceUse {
  std::int64_t segment_bytes = 0;  ///< handed out by the device's segment source, not released
  std::int64_t graph_bytes = 0;    ///< reserved for the memory of graphs, outside segments
  std::int64_t graphs = 0;
  std::int64_t executables = 0;
  std::int64_t user_objects = 0;  ///< made by Device::create_user_object and not yet released
  std::int64_t streams = 0;       ///< the legacy stream not counted
  std::int64_t events = 0;
  friend bool operator==(const ResourceUse&, const ResourceUse&) = default;
};

/// What this process holds on the host, as the system and its C library count it.
struct HostUse {
  std::int64_t resident_bytes = 0;
  std::int64_t heap_bytes = 0;    ///< allocated and not freed
  std::int64_t pinned_bytes = 0;  ///< locked into memory
  std::int64_t file_descriptors = 0;
  friend bool operator==(const HostUse&, const HostUse&) = default;
};

HostUse host_use();

}  // namespace cgconform::workloads
