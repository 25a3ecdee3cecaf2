#pragma once

#include <span>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value factor of `scale` and `axpy`.
struct FactorParams {
  float factor = 1.0F;
};

extern const OpDeclaration add_op;
extern const OpDeclaration accumulate_op;
extern const OpDeclaration scale_op;
extern const OpDeclaration axpy_op;
extern const OpDeclaration add_bias_op;
extern const OpDeclaration bias_grad_op;
extern const OpDeclaration bias_grads_op;
extern const OpDeclaration cast_op;
extern const OpDeclaration gelu_forward_op;
extern const OpDeclaration gelu_backward_op;

/// sum = a + b, element by element.
void add(Stream& stream, const TensorView& sum, const TensorView& a, const TensorView& b,
         std::string label);

/// destination += source, element by element; equal types and sizes.
void accumulate(Stream& stream, const TensorView& destination, const TensorView& source,
                std::string label);

/// x *= factor, in place.
void scale(Stream& stream, const TensorView& x, float factor, std::string label);

/// y += factor * x, element by element.
void axpy(Stream& stream, const TensorView& y, float factor, const TensorView& x,
          std::string label);

/// Adds bias [columns] to every row of x [rows, columns].
void add_bias(Stream& stream, const TensorView& x, const TensorView& bias, std::string label);

/// Adds the column sums of grad_output [rows, columns] to grad_bias [columns], of its arithmetic
/// type.
void bias_grad(Stream& stream, const TensorView& grad_bias, const TensorView& grad_output,
               std::string label);

/// A bias's gradient, and that of the output it was added to.
struct BiasGradient {
  TensorView grad_bias;
  TensorView grad_output;
};

/// bias_grad of all `gradients`, of different biases and of one type, in one call.
void bias_grads(Stream& stream, std::span<const BiasGradient> gradients, std::string label);

/// destination = source, element by element, between floating types; rounds to nearest even.
void cast(Stream& stream, const TensorView& destination, const TensorView& source,
          std::string label);

/// output = x * Phi(x), the exact (erf) GELU.
void gelu_forward(Stream& stream, const TensorView& output, const TensorView& x, std::string label);
void gelu_backward(Stream& stream, const TensorView& grad_x, const TensorView& grad_output,
                   const TensorView& x, std::string label);

}  // namespace cgconform::workloads
