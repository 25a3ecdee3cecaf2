#pragma once

#include "workloads/device/tensor.hpp"
#include "workloads/ops/cuda/launch_context.hpp"

namespace cgconform::workloads::cuda {

/// Adds the bias, a vector of x's columns, to every row of x; fp64 only.
void add_bias_in_place(const TensorView& x, const TensorView& bias, const LaunchContext& context);

/// Adds a tensor of the same elements to x; fp64 only.
void add_in_place(const TensorView& x, const TensorView& added, const LaunchContext& context);

}  // namespace cgconform::workloads::cuda
