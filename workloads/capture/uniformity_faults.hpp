#pragma once

#include <cstdint>
#include <memory>

#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// The places at which the second rank of a gang leaves the path of its peers (F24). With every
/// switch off, and on all other ranks, nothing happens.
class UniformityFaults {
 public:
  explicit UniformityFaults(LegContext& context) : context_(context) {}

  /// True where this rank does not capture although its peers do.
  bool stays_eager() const { return odd(Fault::f24a_eager_at_capture); }
  /// Schedule calls that this rank did not count.
  std::int32_t missed_calls() const { return odd(Fault::f24b_capture_step_missed) ? 1 : 0; }
  /// True where this rank runs eagerly although its graph is there.
  bool leaves_graph(std::uint64_t replays) const {
    return replays > 0 && odd(Fault::f24c_waits_for_captured_event);
  }

  /// Inside the capture: the event that the eager path waits for is recorded here alone.
  void record_captured_event() {
    if (!odd(Fault::f24c_waits_for_captured_event)) return;
    captured_ = context_.device().create_event();
    context_.stream().record(*captured_);
  }
  void wait_for_captured_event() {
    if (captured_) context_.stream().wait(*captured_);
  }

 private:
  bool odd(Fault fault) const {
    const Communicator* gang = context_.environment.gang;
    return context_.fault(fault) && gang != nullptr && gang->rank() == 1;
  }

  LegContext& context_;
  std::unique_ptr<Event> captured_;
};

}  // namespace cgconform::workloads
