#include "workloads/device/collective_sizes.hpp"

#include <fmt/format.h>

#include "workloads/device/errors.hpp"

namespace cgconform::workloads {

void require_sizes(const TensorView& destination, const TensorView& source,
                   std::int64_t destinations, std::int64_t sources, std::string_view label) {
  if (destination.bytes() * destinations == source.bytes() * sources &&
      destination.dtype == source.dtype) {
    return;
  }
  throw DeviceError(ErrorCategory::communicator_invalid_usage, "collective",
                    fmt::format("'{}': source and destination do not fit in size or type", label));
}

}  // namespace cgconform::workloads
