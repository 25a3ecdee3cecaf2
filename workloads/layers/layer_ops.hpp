#pragma once

#include <string>
#include <string_view>

#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

/// A buffer from the context's pool, labelled "<context label> <name>".
Buffer make_buffer(LayerContext& context, DType dtype, const Shape& shape, std::string_view name);

/// Label of an op of the call: "<context label> <name>".
std::string op_label(const LayerContext& context, std::string_view name);

/// Keeps `buffer` for the backward in training; frees it in validation.
void keep(const LayerContext& context, SavedActivations& saved, std::string name, Buffer buffer);

/// y [rows, out] = x [rows, in] weight^T, plus the bias where it is given, plus `residual`, which
/// needs a bias, where it is valid.
Buffer linear_forward(LayerContext& context, const TensorView& x, const Parameter& weight,
                      const Parameter* bias, std::string_view name,
                      const TensorView& residual = {});

/// Adds the weight's and bias's gradients, or leaves them for later where the context delays them,
/// and returns the gradient of x.
Buffer linear_backward(LayerContext& context, const TensorView& grad_output, const TensorView& x,
                       const Parameter& weight, const Parameter* bias, std::string_view name);

/// Layer norm; keeps what its backward needs in `saved` under `name`. The backward adds `residual`,
/// the gradient that flows past the norm, where it is valid.
Buffer norm_forward(LayerContext& context, const TensorView& x, const Parameter& weight,
                    const Parameter& bias, SavedActivations& saved, const std::string& name);
Buffer norm_backward(LayerContext& context, const TensorView& grad_output, const Parameter& weight,
                     const Parameter& bias, const SavedActivations& saved, const std::string& name,
                     const TensorView& residual = {});

/// True where `dropout` drops.
inline bool drops(const LayerContext& context, float probability) {
  return context.training && probability != 0.0F;
}

/// Dropout with the mask kept in `saved` and tapped as "dropout_mask:<name>". Gives `x` back where
/// there is nothing to drop.
Buffer dropout(LayerContext& context, Buffer x, float probability, SavedActivations& saved,
               const std::string& name, RngStream from = RngStream::data_parallel);
/// The gradient through `dropout`; invalid where nothing was dropped and `grad` is it.
Buffer dropout_grad(LayerContext& context, const TensorView& grad, float probability,
                    const SavedActivations& saved, const std::string& name);

}  // namespace cgconform::workloads
