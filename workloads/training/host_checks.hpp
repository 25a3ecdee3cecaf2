#pragma once

#include <cstdint>

#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// Waits for the stream and reads an fp32 or fp64 scalar.
double read_scalar(Stream& stream, const TensorView& scalar);

/// The loss checks of the frameworks: the host waits for a loss and reads it. Where that falls into
/// a capture, the capture fails, as a rule of the constraint table says.
class HostChecks {
 public:
  explicit HostChecks(LegContext& context);

  bool reads_loss() const { return checks_loss_; }
  /// Throws Error where the loss is NaN.
  void check_loss(const TensorView& loss, std::int32_t step, std::int32_t microbatch) const;

 private:
  LegContext& context_;
  bool checks_loss_;
};

}  // namespace cgconform::workloads
