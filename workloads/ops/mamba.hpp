#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalar of the causal convolution: rows of one sequence.
struct ConvolutionParams {
  std::int32_t length = 1;
};

/// By-value scalars of the selective scan: positions [first, first + count) of every sequence are
/// scanned.
struct ScanParams {
  std::int32_t sequences = 1;
  std::int32_t length = 1;
  std::int32_t heads = 1;
  std::int32_t head_size = 1;
  std::int32_t states = 1;
  std::int32_t first = 0;
  std::int32_t count = 1;

  constexpr std::int64_t inner() const { return std::int64_t{heads} * head_size; }
  constexpr std::int64_t rows() const { return std::int64_t{sequences} * count; }
  constexpr std::int64_t state_elements() const { return sequences * inner() * states; }
  /// Row of the whole batch that is number `row` of those scanned.
  constexpr std::int64_t batch_row(std::int64_t row) const {
    return row / count * length + first + row % count;
  }
};

extern const OpDeclaration causal_convolution_forward_op;
extern const OpDeclaration causal_convolution_backward_op;
extern const OpDeclaration selective_scan_forward_op;
extern const OpDeclaration selective_scan_backward_op;
extern const OpDeclaration gate_forward_op;
extern const OpDeclaration gate_backward_op;

/// output = silu(bias + sum over taps j of weight[j] * x[position - taps + 1 + j]) for each
/// channel, x being zero before a sequence's first row. Rows are [sequences * length, channels],
/// weight is [taps, channels]. Where `cu_seqlens` is valid, a row of the batch holds several
/// sequences, as packed_softmax_forward takes them.
void causal_convolution_forward(Stream& stream, const TensorView& output, const TensorView& x,
                                const TensorView& weight, const TensorView& bias,
                                std::int32_t length, const TensorView& cu_seqlens,
                                std::string label);

struct ConvolutionGradients {
  TensorView x;
  TensorView weight;  ///< added to; of the arithmetic type, as the two below
  TensorView bias;    ///< added to
  TensorView sums;    ///< workspace: the gradient of what silu was applied to, as many as x
};
void causal_convolution_backward(Stream& stream, const ConvolutionGradients& grads,
                                 const TensorView& grad_output, const TensorView& x,
                                 const TensorView& weight, const TensorView& bias,
                                 std::int32_t length, const TensorView& cu_seqlens,
                                 std::string label);

/// What a scan reads beside its state.
struct ScanInputs {
  TensorView values;         ///< [rows, heads * head size]
  TensorView state_weights;  ///< [rows, 2 * states]: input weights, then output weights
  TensorView step;           ///< [rows, heads], before its bias and softplus
  TensorView step_bias;      ///< [heads], as the two below
  TensorView decay_log;
  TensorView skip;
  /// Where sequences begin that are packed in one row of the batch, and start from a state of zero;
  /// invalid where none are.
  TensorView cu_seqlens{};
};

/// One chunk of the scan. For each head, with step size s = softplus(step + step_bias):
/// state = exp(-s * exp(decay_log)) * state + s * value * input weights, and
/// output = output weights . state + skip * value. Goes on from `initial`, [sequences, heads, head
/// size, states] of the arithmetic type, and leaves the state in `final`. Writes the rows of its
/// chunk in `output`, [rows, heads * head size], and keeps the others.
void selective_scan_forward(Stream& stream, const TensorView& output, const TensorView& final,
                            const TensorView& initial, const ScanInputs& inputs,
                            const ScanParams& params, std::string label);

/// Gradients of a scan. `values`, `state_weights` and `step` get the rows of the chunk and keep the
/// others; the rest, of the arithmetic type, is added to.
struct ScanGradients {
  TensorView values;
  TensorView state_weights;
  TensorView step;
  TensorView step_bias;
  TensorView decay_log;
  TensorView skip;
  /// In: the gradient of the state that the chunk leaves; out: of the one that it starts from.
  TensorView state;
};
/// Of the arithmetic type.
struct ScanWorkspace {
  TensorView
      states;  ///< before each row of the chunk, [sequences * count, heads, head size, states]
  TensorView grad_states;  ///< after each row
  TensorView head_sums;    ///< [3, sequences * count, heads]: step size, decay, skip
};

/// The backward of one chunk: computes the states of its positions again from `initial`.
void selective_scan_backward(Stream& stream, const ScanGradients& grads,
                             const ScanWorkspace& workspace, const TensorView& grad_output,
                             const TensorView& initial, const ScanInputs& inputs,
                             const ScanParams& params, std::string label);

/// output = x * silu(gate), element by element.
void gate_forward(Stream& stream, const TensorView& output, const TensorView& x,
                  const TensorView& gate, std::string label);
void gate_backward(Stream& stream, const TensorView& grad_x, const TensorView& grad_gate,
                   const TensorView& grad_output, const TensorView& x, const TensorView& gate,
                   std::string label);

}  // namespace cgconform::workloads
