#pragma once

#include <cstdint>

#include "matrix/cell.hpp"
#include "workloads/device/device.hpp"
#include "workloads/faults/fault_switches.hpp"
#include "workloads/training/leg_record.hpp"
#include "workloads/training/leg_request.hpp"
#include "workloads/training/return_point.hpp"

namespace cgconform::workloads {

/// What a leg runs on: one rank of a gang.
struct LegEnvironment {
  Device& device;
  Communicator* gang = nullptr;  ///< all ranks of the cell; null where the cell has one rank
  std::uint64_t seed = 0;        ///< of parameters, data and dropout
  FaultSwitches faults;
  Sabotage sabotage = Sabotage::none;
  ProgressSink* progress = nullptr;
  ReturnPoint returns_at = ReturnPoint::never;  ///< all ranks of a gang at the same
};

/// Runs the cell's training from its initial state and returns what was seen. Errors of the device
/// end the leg and stand in the record; the device is left usable. All ranks of the gang call it
/// with the same cell and request.
LegRecord run_leg(const matrix::Cell& cell, const LegRequest& request,
                  const LegEnvironment& environment);

}  // namespace cgconform::workloads
