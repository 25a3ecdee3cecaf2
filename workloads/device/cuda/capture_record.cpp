#include "workloads/device/cuda/capture_record.hpp"

#include <fmt/format.h>

namespace cgconform::workloads::cuda {

void CaptureRecord::refuse_closed_communicators() const {
  for (const auto& communicator : communicators) {
    if (!communicator->closed()) continue;
    throw DeviceError(
        ErrorCategory::communicator_invalid_usage, "graph_launch",
        fmt::format("the graph uses the communicator {}, which was closed", communicator->name()));
  }
}

}  // namespace cgconform::workloads::cuda
