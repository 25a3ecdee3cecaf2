#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// Times the forwards and backwards of a timed leg's training steps, by the host's clock and by
/// events of the device. Waits for nothing meanwhile. Does nothing in other legs.
class StepTimer {
 public:
  explicit StepTimer(LegContext& context) : context_(context) {}

  void begin(std::int32_t step);
  void end();
  /// Puts the times into the leg's record. The device has ended all work.
  void finish();

 private:
  struct Span {
    StepTimes times;
    std::unique_ptr<Event> begin;
    std::unique_ptr<Event> end;
  };

  bool on() const { return context_.request.timed && context_.request.cycles == 0; }

  LegContext& context_;
  std::vector<Span> spans_;
  std::size_t graphs_before_ = 0;
  std::size_t executions_before_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace cgconform::workloads
