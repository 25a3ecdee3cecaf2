#pragma once

#include "matrix/cell.hpp"
#include "workloads/device/tensor.hpp"

namespace cgconform::workloads {

/// Type of the cell's weights and activations.
DType model_type(const matrix::Cell& cell);

}  // namespace cgconform::workloads
