#pragma once

#include <cstdint>

#include "matrix/cell.hpp"
#include "workloads/device/device.hpp"
#include "workloads/faults/fault_switches.hpp"
#include "workloads/training/leg_record.hpp"

namespace cgconform::workloads {

enum class LegKind : std::uint8_t { eager, graph };

/// What distinguishes one execution of a cell from another. Equal requests are run once.
struct LegRequest {
  LegKind kind = LegKind::eager;
  std::int32_t repetition = 0;    ///< 0, 1, ...: repeats for noise
  bool instrumented = false;      ///< taps inside layers, slot hashes, poison, guard bands
  std::uint64_t replay_seed = 0;  ///< reference device: topological order of replays
  friend auto operator<=>(const LegRequest&, const LegRequest&) = default;
};

/// What a leg runs on: one rank of a gang.
struct LegEnvironment {
  Device& device;
  Communicator* gang = nullptr;  ///< all ranks of the cell; null where the cell has one rank
  std::uint64_t seed = 0;        ///< of parameters, data and dropout
  FaultSwitches faults;
  Sabotage sabotage = Sabotage::none;
  ProgressSink* progress = nullptr;
};

/// Runs the cell's training from its initial state and returns what was seen. Errors of the device
/// end the leg and stand in the record; the device is left usable. All ranks of the gang call it
/// with the same cell and request.
LegRecord run_leg(const matrix::Cell& cell, const LegRequest& request,
                  const LegEnvironment& environment);

}  // namespace cgconform::workloads
