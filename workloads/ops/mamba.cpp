#include "workloads/ops/mamba.hpp"

#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array convolution_operands{
    OperandDeclaration{"output", Access::write}, OperandDeclaration{"x", Access::read},
    OperandDeclaration{"weight", Access::read}, OperandDeclaration{"bias", Access::read},
    OperandDeclaration{"cu_seqlens", Access::read, true}};
constexpr std::array convolution_backward_operands{
    OperandDeclaration{"grad_x", Access::write},
    OperandDeclaration{"grad_weight", Access::accumulate},
    OperandDeclaration{"grad_bias", Access::accumulate},
    OperandDeclaration{"sums", Access::write},
    OperandDeclaration{"grad_output", Access::read},
    OperandDeclaration{"x", Access::read},
    OperandDeclaration{"weight", Access::read},
    OperandDeclaration{"bias", Access::read},
    OperandDeclaration{"cu_seqlens", Access::read, true}};
constexpr std::array scan_operands{OperandDeclaration{"output", Access::accumulate},
                                   OperandDeclaration{"final", Access::write},
                                   OperandDeclaration{"initial", Access::read},
                                   OperandDeclaration{"values", Access::read},
                                   OperandDeclaration{"state_weights", Access::read},
                                   OperandDeclaration{"step", Access::read},
                                   OperandDeclaration{"step_bias", Access::read},
                                   OperandDeclaration{"decay_log", Access::read},
                                   OperandDeclaration{"skip", Access::read},
                                   OperandDeclaration{"cu_seqlens", Access::read, true}};
constexpr std::array scan_backward_operands{
    OperandDeclaration{"grad_values", Access::accumulate},
    OperandDeclaration{"grad_state_weights", Access::accumulate},
    OperandDeclaration{"grad_step", Access::accumulate},
    OperandDeclaration{"grad_step_bias", Access::accumulate},
    OperandDeclaration{"grad_decay_log", Access::accumulate},
    OperandDeclaration{"grad_skip", Access::accumulate},
    OperandDeclaration{"grad_state", Access::accumulate},
    OperandDeclaration{"states", Access::write},
    OperandDeclaration{"grad_states", Access::write},
    OperandDeclaration{"head_sums", Access::write},
    OperandDeclaration{"grad_output", Access::read},
    OperandDeclaration{"initial", Access::read},
    OperandDeclaration{"values", Access::read},
    OperandDeclaration{"state_weights", Access::read},
    OperandDeclaration{"step", Access::read},
    OperandDeclaration{"step_bias", Access::read},
    OperandDeclaration{"decay_log", Access::read},
    OperandDeclaration{"skip", Access::read},
    OperandDeclaration{"cu_seqlens", Access::read, true}};
constexpr std::array gate_operands{OperandDeclaration{"output", Access::write},
                                   OperandDeclaration{"x", Access::read},
                                   OperandDeclaration{"gate", Access::read}};
constexpr std::array gate_backward_operands{
    OperandDeclaration{"grad_x", Access::write}, OperandDeclaration{"grad_gate", Access::write},
    OperandDeclaration{"grad_output", Access::read}, OperandDeclaration{"x", Access::read},
    OperandDeclaration{"gate", Access::read}};

bool borders_fit(const TensorView& cu_seqlens, std::int64_t sequences) {
  return !cu_seqlens.valid() || cu_seqlens.shape[0] == sequences;
}

void require_scan(const ScanInputs& inputs, const TensorView& output, const TensorView& state,
                  const ScanParams& params) {
  const std::int64_t rows = std::int64_t{params.sequences} * params.length;
  const bool fits =
      params.first >= 0 && params.count > 0 && params.first + params.count <= params.length &&
      output.elements() == rows * params.inner() && state.elements() == params.state_elements() &&
      inputs.values.elements() == rows * params.inner() &&
      inputs.state_weights.elements() == 2 * rows * params.states &&
      inputs.step.elements() == rows * params.heads &&
      inputs.step_bias.elements() == params.heads && inputs.decay_log.elements() == params.heads &&
      inputs.skip.elements() == params.heads && borders_fit(inputs.cu_seqlens, params.sequences);
  if (!fits) throw InternalError("selective_scan: the extents of its operands do not fit");
}

void require_convolution(const TensorView& x, const TensorView& weight, const TensorView& bias,
                         std::int32_t length, const TensorView& cu_seqlens) {
  const bool fits = weight.shape[1] == x.shape[1] && bias.elements() == x.shape[1] && length > 0 &&
                    x.shape[0] % length == 0 && borders_fit(cu_seqlens, x.shape[0] / length);
  if (!fits) throw InternalError("causal_convolution: the extents of its operands do not fit");
}

}  // namespace

const OpDeclaration causal_convolution_forward_op{
    "causal_convolution_forward", convolution_operands, reference::causal_convolution_forward,
    cuda::causal_convolution_forward};
const OpDeclaration causal_convolution_backward_op{
    "causal_convolution_backward", convolution_backward_operands,
    reference::causal_convolution_backward, cuda::causal_convolution_backward};
const OpDeclaration selective_scan_forward_op{"selective_scan_forward", scan_operands,
                                              reference::selective_scan_forward,
                                              cuda::selective_scan_forward};
const OpDeclaration selective_scan_backward_op{"selective_scan_backward", scan_backward_operands,
                                               reference::selective_scan_backward,
                                               cuda::selective_scan_backward};
const OpDeclaration gate_forward_op{"gate_forward", gate_operands, reference::gate_forward,
                                    cuda::gate_forward};
const OpDeclaration gate_backward_op{"gate_backward", gate_backward_operands,
                                     reference::gate_backward, cuda::gate_backward};

void causal_convolution_forward(Stream& stream, const TensorView& output, const TensorView& x,
                                const TensorView& weight, const TensorView& bias,
                                std::int32_t length, const TensorView& cu_seqlens,
                                std::string label) {
  require_convolution(x, weight, bias, length, cu_seqlens);
  stream.launch(make_call(causal_convolution_forward_op,
                          std::array{output, x, weight, bias, cu_seqlens},
                          OpParams::of(ConvolutionParams{length}), std::move(label)));
}

void causal_convolution_backward(Stream& stream, const ConvolutionGradients& grads,
                                 const TensorView& grad_output, const TensorView& x,
                                 const TensorView& weight, const TensorView& bias,
                                 std::int32_t length, const TensorView& cu_seqlens,
                                 std::string label) {
  require_convolution(x, weight, bias, length, cu_seqlens);
  stream.launch(make_call(causal_convolution_backward_op,
                          std::array{grads.x, grads.weight, grads.bias, grads.sums, grad_output, x,
                                     weight, bias, cu_seqlens},
                          OpParams::of(ConvolutionParams{length}), std::move(label)));
}

void selective_scan_forward(Stream& stream, const TensorView& output, const TensorView& final,
                            const TensorView& initial, const ScanInputs& inputs,
                            const ScanParams& params, std::string label) {
  require_scan(inputs, output, initial, params);
  stream.launch(
      make_call(selective_scan_forward_op,
                std::array{output, final, initial, inputs.values, inputs.state_weights, inputs.step,
                           inputs.step_bias, inputs.decay_log, inputs.skip, inputs.cu_seqlens},
                OpParams::of(params), std::move(label)));
}

void selective_scan_backward(Stream& stream, const ScanGradients& grads,
                             const ScanWorkspace& workspace, const TensorView& grad_output,
                             const TensorView& initial, const ScanInputs& inputs,
                             const ScanParams& params, std::string label) {
  require_scan(inputs, grad_output, initial, params);
  if (workspace.states.elements() != params.state_elements() * params.count ||
      workspace.grad_states.elements() != workspace.states.elements() ||
      workspace.head_sums.elements() != 3 * params.rows() * params.heads) {
    throw InternalError("selective_scan_backward: the workspace does not fit the chunk");
  }
  stream.launch(make_call(
      selective_scan_backward_op,
      std::array{grads.values, grads.state_weights, grads.step, grads.step_bias, grads.decay_log,
                 grads.skip, grads.state, workspace.states, workspace.grad_states,
                 workspace.head_sums, grad_output, initial, inputs.values, inputs.state_weights,
                 inputs.step, inputs.step_bias, inputs.decay_log, inputs.skip, inputs.cu_seqlens},
      OpParams::of(params), std::move(label)));
}

void gate_forward(Stream& stream, const TensorView& output, const TensorView& x,
                  const TensorView& gate, std::string label) {
  stream.launch(
      make_call(gate_forward_op, std::array{output, x, gate}, OpParams{}, std::move(label)));
}

void gate_backward(Stream& stream, const TensorView& grad_x, const TensorView& grad_gate,
                   const TensorView& grad_output, const TensorView& x, const TensorView& gate,
                   std::string label) {
  stream.launch(make_call(gate_backward_op, std::array{grad_x, grad_gate, grad_output, x, gate},
                          OpParams{}, std::move(label)));
}

}  // namespace cgconform::workloads
