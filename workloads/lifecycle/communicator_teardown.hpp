#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/device.hpp"

namespace cgconform::workloads {

class FaultSwitches;

/// How the parts of a small program with a captured collective were torn down.
struct CommunicatorTeardown {
  bool replayed_rightly = false;
  int references_when_retired = 0;       ///< graphs that held the communicator when it was to end
  bool deferred = false;                 ///< its end was put off until they were gone
  std::uint64_t launches_after_end = 0;  ///< of a graph whose communicator had been ended
  std::string error;                     ///< of the teardown; empty where it went through
  bool ended = false;                    ///< the communicator is gone at last
  double seconds = 0.0;                  ///< the teardown took
};

/// Captures a collective over a communicator of this rank alone, replays it, and tears down: first
/// what is in flight, then the graphs, then the communicator by `how`, then the memory. `faults`
/// may be null.
CommunicatorTeardown run_communicator_teardown(Device& device, CommunicatorEnd how,
                                               const FaultSwitches* faults);

/// The same with the communicator retired while its graphs live and are still replayed: what the
/// guard must survive, and no fault.
CommunicatorTeardown retire_before_graphs(Device& device, CommunicatorEnd how);

}  // namespace cgconform::workloads
