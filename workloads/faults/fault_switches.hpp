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

/// Ways to make the harness's own promises false, to prove that every graph cell then turns red.
enum class Sabotage : unsigned char {
  none,
  replay_does_nothing,
  replay_runs_eager_code,
  comparator_says_equal,
  capture_executes_at_once,
};

}  // namespace cgconform::workloads
