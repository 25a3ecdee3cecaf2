#pragma once

#include <memory>

#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// Calls that capture refuses, made inside a capture window where their switch is on (F19). With
/// every switch off nothing happens.
class CaptureViolations {
 public:
  explicit CaptureViolations(LegContext& context) : context_(context) {}

  /// Before the window opens.
  void prepare();
  /// Inside the window, after the captured body.
  void commit();

 private:
  void leave_fork_unjoined(const TensorView& scratch);
  void merge_two_captures();

  LegContext& context_;
  std::unique_ptr<Event> earlier_;  ///< recorded before the window
  Buffer scratch_;                  ///< what the calls read and write
};

}  // namespace cgconform::workloads
