#pragma once

#include <bitset>
#include <cstddef>

#include "workloads/faults/fault_table.hpp"

namespace cgconform::workloads {

/// Which faults are on; all off by default. Read by the workload at the named places only: checks
/// and reports must not see it.
class FaultSwitches {
 public:
  bool is_on(Fault fault) const { return on_.test(static_cast<std::size_t>(fault)); }
  void turn_on(Fault fault) { on_.set(static_cast<std::size_t>(fault)); }
  bool any() const { return on_.any(); }

 private:
  std::bitset<static_cast<std::size_t>(Fault::count)> on_;
};

}  // namespace cgconform::workloads
