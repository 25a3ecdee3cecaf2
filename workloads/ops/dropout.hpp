#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalars of the dropout ops. The random counter is device memory, but for
/// `dropout_by_value`, whose counter is frozen by capture.
struct DropoutParams {
  float probability = 0.0F;
  std::uint32_t advance = 1;  ///< added to the offset after the draw
  std::uint64_t offset = 0;   ///< of dropout_by_value only
};

extern const OpDeclaration dropout_forward_op;
extern const OpDeclaration dropout_by_value_op;
extern const OpDeclaration dropout_backward_op;

/// output = x * mask / (1 - probability), where mask [uint8, as x] is drawn by Philox from
/// `seed_and_offset` (two uint64 in device memory), whose offset is then advanced by `advance`.
void dropout_forward(Stream& stream, const TensorView& output, const TensorView& mask,
                     const TensorView& seed_and_offset, const TensorView& x, float probability,
                     std::uint32_t advance, std::string label);

/// As dropout_forward, with the offset from the host at the call; the device's is read for its seed
/// and left alone.
void dropout_by_value(Stream& stream, const TensorView& output, const TensorView& mask,
                      const TensorView& seed_and_offset, const TensorView& x, float probability,
                      std::uint64_t offset, std::string label);

void dropout_backward(Stream& stream, const TensorView& grad_x, const TensorView& grad_output,
                      const TensorView& mask, float probability, std::string label);

}  // namespace cgconform::workloads
