#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "workloads/device/device.hpp"

namespace cgconform::workloads {
class FaultSwitches;
}  // namespace cgconform::workloads

namespace cgconform::suites::checks {

/// What a child program may use: a device and a communicator of its own.
struct ChildContext {
  workloads::Device& device;
  std::unique_ptr<workloads::Communicator> communicator;  ///< of all ranks of the program
  /// Called when the part begins that may never end.
  std::function<void()> announce;
  const workloads::FaultSwitches* faults = nullptr;  ///< passed on; may be null
};

/// A small program for a process that may hang, or die. It throws Error where what it was to do
/// failed.
struct ChildProgram {
  std::string_view name;
  void (*run)(ChildContext& context);
};
std::span<const ChildProgram> child_programs();
/// Null where there is none of that name.
const ChildProgram* find_child_program(std::string_view name);

/// Makes the library's own call on a communicator that a live graph holds.
std::string_view raw_end_program(workloads::CommunicatorEnd how);
/// Replays a graph with a collective on all ranks, then destroys it.
inline constexpr std::string_view ranks_program = "teardown-of-ranks";

}  // namespace cgconform::suites::checks
