#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::workloads {

class FaultSwitches;

/// All layers of a model as one callable: its forward is a graph, and so is its backward where it
/// is trained.
struct CallableRequest {
  bool trained = false;  ///< with dropout and a backward; otherwise forwards alone, as in inference
  std::int32_t warmups = 3;  ///< runs on a side stream before the capture there
  std::int32_t calls = 20;   ///< each with an input of its own
  std::uint64_t seed = 0;
};

/// What callers were handed out, eagerly and from graphs, under the same names.
struct CallableRecord {
  using Tensors = std::vector<std::pair<std::string, Buffer>>;

  std::shared_ptr<void> memory;  ///< that the tensors lie in; destroyed last
  Tensors eager;
  Tensors graphed;
  std::uint64_t replays = 0;         ///< by the device's count
  std::uint64_t ran_at_capture = 0;  ///< launches and nodes inside the captures
  std::uint64_t nodes = 0;           ///< of all graphs
};

/// Runs the calls eagerly and then from graphs, from the same state. A graph's output lies in a
/// static slot and is cloned before it is handed out. `faults` may be null.
CallableRecord run_graphed_callables(Device& device, const CallableRequest& request,
                                     const FaultSwitches* faults);

}  // namespace cgconform::workloads
