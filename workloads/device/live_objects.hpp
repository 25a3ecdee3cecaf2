#pragma once

#include <atomic>
#include <cstdint>

#include "workloads/device/resource_use.hpp"

namespace cgconform::workloads {

/// How many objects of each kind a device has made that are alive. Thread-safe.
struct LiveObjects {
  std::atomic<std::int64_t> graphs{0};
  std::atomic<std::int64_t> executables{0};
  std::atomic<std::int64_t> user_objects{0};
  std::atomic<std::int64_t> streams{0};
  std::atomic<std::int64_t> events{0};

  /// The counts, with everything else 0.
  ResourceUse use() const {
    return {.graphs = graphs.load(),
            .executables = executables.load(),
            .user_objects = user_objects.load(),
            .streams = streams.load(),
            .events = events.load()};
  }
};

/// Counts itself while it lives. A member of what is counted, after the owner of the counter.
class LiveObject {
 public:
  explicit LiveObject(std::atomic<std::int64_t>& count) : count_(count) { ++count_; }
  ~LiveObject() { --count_; }
  LiveObject(const LiveObject&) = delete;
  LiveObject& operator=(const LiveObject&) = delete;

 private:
  std::atomic<std::int64_t>& count_;
};

}  // namespace cgconform::workloads
