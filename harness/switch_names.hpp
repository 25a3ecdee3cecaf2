#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workloads/faults/fault_switches.hpp"

namespace cgconform::harness {

/// The fault switch of an id such as `F02b`. Throws InputError with the nearest id.
workloads::Fault fault_named(const std::string& id);
std::string_view fault_id(workloads::Fault fault);
workloads::FaultSwitches fault_switches(const std::vector<std::string>& ids);

/// The sabotage of a name such as `replay_does_nothing`; none for an empty one. Throws InputError
/// with the nearest name.
workloads::Sabotage sabotage_named(const std::string& name);
std::string_view sabotage_name(workloads::Sabotage sabotage);

}  // namespace cgconform::harness
