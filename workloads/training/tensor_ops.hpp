#pragma once

#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// `destination` += `source`, element by element; equal types and sizes.
void accumulate(Stream& stream, const TensorView& destination, const TensorView& source,
                std::string label);

/// Writes a hash of the bytes of `source` into `cell`, one uint64.
void checksum(Stream& stream, const TensorView& cell, const TensorView& source, std::string label);

/// Rows [first, first + count) of a tensor whose first axis counts rows.
TensorView rows_of(const TensorView& tensor, std::int64_t first, std::int64_t count);

}  // namespace cgconform::workloads
