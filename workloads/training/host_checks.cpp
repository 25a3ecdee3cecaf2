#include "workloads/training/host_checks.hpp"

#include <cmath>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {

double read_scalar(Stream& stream, const TensorView& scalar) {
  if (scalar.dtype == DType::fp64) {
    double value = 0.0;
    stream.download(&value, scalar);
    return value;
  }
  if (scalar.dtype != DType::fp32) throw InternalError("only fp32 and fp64 scalars are read");
  float value = 0.0F;
  stream.download(&value, scalar);
  return value;
}

HostChecks::HostChecks(LegContext& context)
    : context_(context),
      checks_loss_(context.cell.config.check_for_nan_in_loss &&
                   context.cell.config.check_for_nan_in_loss_and_grad) {}

void HostChecks::check_loss(const TensorView& loss, std::int32_t step,
                            std::int32_t microbatch) const {
  if (!std::isnan(read_scalar(context_.stream(), loss))) return;
  throw Error(
      fmt::format("step {}, micro-batch {}: the loss is NaN; lower the learning rate, or "
                  "look at the data",
                  step, microbatch));
}

}  // namespace cgconform::workloads
