#pragma once

#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalar of the layer norm.
struct LayerNormParams {
  float epsilon = 1e-5F;
};

extern const OpDeclaration layer_norm_forward_op;
extern const OpDeclaration layer_norm_backward_op;

/// output = normalised * gamma + beta over the rows of x [rows, columns]; keeps the normalised rows
/// and their reciprocal deviations [rows], of the arithmetic type, for the backward.
void layer_norm_forward(Stream& stream, const TensorView& output, const TensorView& normalised,
                        const TensorView& reciprocal_deviation, const TensorView& x,
                        const TensorView& gamma, const TensorView& beta, std::string label);

/// Writes grad_x and adds to grad_gamma and grad_beta, which are of the arithmetic type. A valid
/// `residual` of grad_x's shape, the gradient that flows past the norm, is added before the
/// rounding.
void layer_norm_backward(Stream& stream, const TensorView& grad_x, const TensorView& grad_gamma,
                         const TensorView& grad_beta, const TensorView& grad_output,
                         const TensorView& normalised, const TensorView& reciprocal_deviation,
                         const TensorView& gamma, std::string label,
                         const TensorView& residual = {});

}  // namespace cgconform::workloads
