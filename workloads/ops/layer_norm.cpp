#include "workloads/ops/layer_norm.hpp"

#include <array>
#include <utility>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array forward_operands{OperandDeclaration{"output", Access::write},
                                      OperandDeclaration{"normalised", Access::write},
                                      OperandDeclaration{"reciprocal_deviation", Access::write},
                                      OperandDeclaration{"x", Access::read},
                                      OperandDeclaration{"gamma", Access::read},
                                      OperandDeclaration{"beta", Access::read}};
constexpr std::array backward_operands{OperandDeclaration{"grad_x", Access::write},
                                       OperandDeclaration{"grad_gamma", Access::accumulate},
                                       OperandDeclaration{"grad_beta", Access::accumulate},
                                       OperandDeclaration{"grad_output", Access::read},
                                       OperandDeclaration{"normalised", Access::read},
                                       OperandDeclaration{"reciprocal_deviation", Access::read},
                                       OperandDeclaration{"gamma", Access::read},
                                       OperandDeclaration{"residual", Access::read, true}};

}  // namespace

const OpDeclaration layer_norm_forward_op{"layer_norm_forward", forward_operands,
                                          reference::layer_norm_forward, cuda::layer_norm_forward};
const OpDeclaration layer_norm_backward_op{"layer_norm_backward", backward_operands,
                                           reference::layer_norm_backward,
                                           cuda::layer_norm_backward};

void layer_norm_forward(Stream& stream, const TensorView& output, const TensorView& normalised,
                        const TensorView& reciprocal_deviation, const TensorView& x,
                        const TensorView& gamma, const TensorView& beta, std::string label) {
  stream.launch(make_call(layer_norm_forward_op,
                          std::array{output, normalised, reciprocal_deviation, x, gamma, beta},
                          OpParams::of(LayerNormParams{}), std::move(label)));
}

void layer_norm_backward(Stream& stream, const TensorView& grad_x, const TensorView& grad_gamma,
                         const TensorView& grad_beta, const TensorView& grad_output,
                         const TensorView& normalised, const TensorView& reciprocal_deviation,
                         const TensorView& gamma, std::string label, const TensorView& residual) {
  stream.launch(make_call(layer_norm_backward_op,
                          std::array{grad_x, grad_gamma, grad_beta, grad_output, normalised,
                                     reciprocal_deviation, gamma, residual},
                          {}, std::move(label)));
}

}  // namespace cgconform::workloads
