#pragma once

#include <functional>
#include <memory>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::workloads {

class FaultSwitches;

/// A graph with one all-reduce over a communicator, which was used eagerly before.
class CapturedCollective {
 public:
  CapturedCollective(Device& device, Communicator& communicator);

  void replay() { exec_->launch(*stream_); }
  /// Blocks until the replays have ended; throws what they throw.
  void wait() { stream_->synchronize(); }
  void destroy_graphs();

 private:
  std::unique_ptr<Stream> stream_;
  CachingAllocator allocator_;
  Buffer input_;
  Buffer output_;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<GraphExec> exec_;
};

/// Replays a captured collective some times on every rank, waits for all of it and destroys the
/// graphs. `announce` is called before the last replay. `faults` may be null.
void replay_and_tear_down(Device& device, Communicator& communicator, const FaultSwitches* faults,
                          const std::function<void()>& announce);

}  // namespace cgconform::workloads
