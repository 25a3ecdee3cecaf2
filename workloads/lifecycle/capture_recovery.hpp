#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "workloads/device/device.hpp"

namespace cgconform::workloads {

class FaultSwitches;

/// What breaks a capture half-way.
enum class CaptureBreak : std::uint8_t {
  synchronization,  ///< a call that capture forbids and that invalidates it
  unjoined_fork,    ///< found when the capture ends
  body_error,       ///< the captured code throws; the device knows nothing of it
};
std::string_view capture_break_name(CaptureBreak how);

struct RecoveryRequest {
  CaptureMode mode = CaptureMode::global;
  CaptureBreak how = CaptureBreak::synchronization;
  bool private_pool = true;
  bool collective = false;  ///< in the capture that breaks
};

/// What the device could do after a capture that broke was unwound.
struct RecoveryRecord {
  std::string first_error;      ///< what broke the capture
  std::string unwinding_error;  ///< empty where the unwinding itself went well
  bool capturing = false;       ///< a stream still captures
  std::string eager;            ///< what is wrong with eager work; empty where it is right
  std::string collective;       ///< the same of an eager collective
  std::string memory;           ///< what is not back
  std::string recapture;        ///< what is wrong with a new capture and its replay
};

/// Breaks a capture on streams of its own, unwinds it and looks. `communicator` has any number of
/// ranks, which all make the call. `faults` may be null.
RecoveryRecord run_capture_recovery(Device& device, Communicator& communicator,
                                    const RecoveryRequest& request, const FaultSwitches* faults);

}  // namespace cgconform::workloads
