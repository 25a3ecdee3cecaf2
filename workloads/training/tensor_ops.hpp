#pragma once

#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/verification.hpp"

namespace cgconform::workloads {

/// Rows [first, first + count) of a tensor of one or two axes whose first axis counts rows.
TensorView rows_of(const TensorView& tensor, std::int64_t first, std::int64_t count);

/// The tensor of shape `shape` that starts at element `first` of `tensor`.
TensorView elements_of(const TensorView& tensor, std::int64_t first, const Shape& shape);

}  // namespace cgconform::workloads
