#pragma once

#include <string>

#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// The ranks of a gang capture their iterations together, so that a rank that cannot tells its
/// peers before they launch what would wait for it.
class CaptureAgreement {
 public:
  explicit CaptureAgreement(const LegContext& context) : context_(context) {}

  /// Before the capture: all ranks are about to capture. Throws DeviceError where one has failed.
  void ready() const { agree("ready"); }
  /// After it: all have captured. Throws likewise.
  void captured() const { agree("captured"); }
  /// In place of `captured`, after a capture that failed.
  void failed(const std::string& reason) const;

 private:
  void agree(const std::string& status) const;

  const LegContext& context_;
};

}  // namespace cgconform::workloads
