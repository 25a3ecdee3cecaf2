#include "workloads/ops/attention.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array split_operands{OperandDeclaration{"heads", Access::write},
                                    OperandDeclaration{"rows", Access::read}};
constexpr std::array merge_operands{OperandDeclaration{"rows", Access::write},
                                    OperandDeclaration{"part_0", Access::read},
                                    OperandDeclaration{"part_1", Access::read, true},
                                    OperandDeclaration{"part_2", Access::read, true}};
constexpr std::array split_parts_operands{OperandDeclaration{"rows", Access::read},
                                          OperandDeclaration{"part_0", Access::write},
                                          OperandDeclaration{"part_1", Access::write, true},
                                          OperandDeclaration{"part_2", Access::write, true}};
constexpr std::array softmax_operands{OperandDeclaration{"probabilities", Access::write},
                                      OperandDeclaration{"scores", Access::read}};
constexpr std::array softmax_backward_operands{
    OperandDeclaration{"grad_scores", Access::write},
    OperandDeclaration{"grad_probabilities", Access::read},
    OperandDeclaration{"probabilities", Access::read}};

HeadsParams heads_params(const TensorView& heads, const TensorView& rows, std::int32_t sequences,
                         std::int32_t part, std::int32_t parts) {
  HeadsParams params;
  params.sequences = sequences;
  params.heads = static_cast<std::int32_t>(heads.shape[0]) / sequences;
  params.length = static_cast<std::int32_t>(heads.shape[1]);
  params.size = static_cast<std::int32_t>(heads.shape[2]);
  params.part = part;
  params.parts = parts;
  if (rows.elements() != heads.elements() * parts) {
    throw InternalError("split_heads, merge_heads: the extents of rows and heads do not fit");
  }
  return params;
}

/// A call on rows and one to three parts of equal shape, which make up the rows.
OpCall call_on_parts(const OpDeclaration& op, const TensorView& rows,
                     std::span<const TensorView> parts, std::int32_t sequences, std::string label) {
  std::array<TensorView, merge_operands.size()> tensors{rows};
  const bool fits = !parts.empty() && parts.size() < tensors.size() &&
                    std::all_of(parts.begin(), parts.end(), [&](const TensorView& part) {
                      return part.shape == parts[0].shape;
                    });
  if (!fits) {
    throw InternalError(std::string(op.name) + ": needs one to three parts of equal shape");
  }
  std::copy(parts.begin(), parts.end(), tensors.begin() + 1);
  const auto count = static_cast<std::int32_t>(parts.size());
  return make_call(op, tensors, OpParams::of(heads_params(parts[0], rows, sequences, 0, count)),
                   std::move(label));
}

}  // namespace

const OpDeclaration split_heads_op{"split_heads", split_operands, reference::split_heads,
                                   cuda::split_heads};
const OpDeclaration merge_heads_op{"merge_heads", merge_operands, reference::merge_heads,
                                   cuda::merge_heads};
const OpDeclaration split_parts_op{"split_parts", split_parts_operands, reference::split_parts,
                                   cuda::split_parts};
const OpDeclaration causal_softmax_forward_op{"causal_softmax_forward", softmax_operands,
                                              reference::causal_softmax_forward,
                                              cuda::causal_softmax_forward};
const OpDeclaration causal_softmax_backward_op{"causal_softmax_backward", softmax_backward_operands,
                                               reference::causal_softmax_backward,
                                               cuda::causal_softmax_backward};

void split_heads(Stream& stream, const TensorView& heads, const TensorView& rows,
                 std::int32_t sequences, std::int32_t part, std::int32_t parts, std::string label) {
  stream.launch(make_call(split_heads_op, std::array{heads, rows},
                          OpParams::of(heads_params(heads, rows, sequences, part, parts)),
                          std::move(label)));
}

void merge_heads(Stream& stream, const TensorView& rows, std::span<const TensorView> parts,
                 std::int32_t sequences, std::string label) {
  stream.launch(call_on_parts(merge_heads_op, rows, parts, sequences, std::move(label)));
}

void split_parts(Stream& stream, std::span<const TensorView> parts, const TensorView& rows,
                 std::int32_t sequences, std::string label) {
  stream.launch(call_on_parts(split_parts_op, rows, parts, sequences, std::move(label)));
}

void causal_softmax_forward(Stream& stream, const TensorView& probabilities,
                            const TensorView& scores, float scale, std::string label) {
  stream.launch(make_call(causal_softmax_forward_op, std::array{probabilities, scores},
                          OpParams::of(SoftmaxParams{scale}), std::move(label)));
}

void causal_softmax_backward(Stream& stream, const TensorView& grad_scores,
                             const TensorView& grad_probabilities, const TensorView& probabilities,
                             float scale, std::string label) {
  stream.launch(make_call(causal_softmax_backward_op,
                          std::array{grad_scores, grad_probabilities, probabilities},
                          OpParams::of(SoftmaxParams{scale}), std::move(label)));
}

}  // namespace cgconform::workloads
