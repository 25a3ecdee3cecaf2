#pragma once

#include <cstdint>
#include <string_view>

namespace cgconform::workloads {

/// What a worker is doing; each phase has its own deadline.
enum class Phase : std::uint8_t {
  idle,
  setup,
  eager,
  warmup,
  capture,
  instantiate,
  replay,
  verify,
  teardown,
};
std::string_view phase_name(Phase phase);

/// Receives phase changes and ops as they are entered, so that a supervisor can say where a rank
/// hung or died. Calls are cheap, lock-free and safe from any thread.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void enter_phase(Phase phase) = 0;
  /// `label` of the op that starts now; copied (truncated to the sink's capacity).
  virtual void start_operation(std::string_view label) = 0;
};

}  // namespace cgconform::workloads
