#pragma once

#include <cstdint>
#include <string_view>

#include "workloads/device/tensor.hpp"

namespace cgconform::workloads {

/// The tensors of a collective: `destinations` times the destination is as large as `sources` times
/// the source, and both are of one type. Throws communicator_invalid_usage else: the libraries take
/// one count for both and would reach beyond the smaller one.
void require_sizes(const TensorView& destination, const TensorView& source,
                   std::int64_t destinations, std::int64_t sources, std::string_view label);

}  // namespace cgconform::workloads
