#include "workloads/ops/fused_attention.hpp"

#include <array>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/fused_attention_memory.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array forward_operands{
    OperandDeclaration{"probabilities", Access::write}, OperandDeclaration{"merged", Access::write},
    OperandDeclaration{"query", Access::read}, OperandDeclaration{"key", Access::read},
    OperandDeclaration{"value", Access::read}};
constexpr std::array backward_operands{OperandDeclaration{"grad_query", Access::write},
                                       OperandDeclaration{"grad_key", Access::write},
                                       OperandDeclaration{"grad_value", Access::write},
                                       OperandDeclaration{"grad_merged", Access::read},
                                       OperandDeclaration{"merged", Access::read},
                                       OperandDeclaration{"query", Access::read},
                                       OperandDeclaration{"key", Access::read},
                                       OperandDeclaration{"value", Access::read},
                                       OperandDeclaration{"probabilities", Access::read}};

OpParams params_of(const AttentionHeadViews& heads, const AttendedViews& attended, float scale) {
  const Shape& shape = heads.query.shape;
  const std::int64_t length = shape[1];
  const std::int64_t size = shape[2];
  if (!fits_fused_attention(heads.query.dtype, length, size)) {
    throw InternalError("fused_attention: heads of this length and size do not fit");
  }
  FusedAttentionParams params;
  params.scale = scale;
  params.heads = static_cast<std::int32_t>(attended.merged.shape[1] / size);
  const bool agree = heads.key.shape == shape && heads.value.shape == shape &&
                     attended.probabilities.shape == Shape{shape[0], length, length} &&
                     attended.merged.elements() == heads.query.elements() && params.heads > 0 &&
                     shape[0] % params.heads == 0;
  if (!agree) throw InternalError("fused_attention: the extents of the operands do not fit");
  return OpParams::of(params);
}

}  // namespace

const OpDeclaration fused_attention_forward_op{"fused_attention_forward", forward_operands,
                                               reference::fused_attention_forward,
                                               cuda::fused_attention_forward};
const OpDeclaration fused_attention_backward_op{"fused_attention_backward", backward_operands,
                                                reference::fused_attention_backward,
                                                cuda::fused_attention_backward};

bool fits_fused_attention(DType dtype, std::int64_t length, std::int64_t size) {
  return cuda::fits_shared_memory(length, size, dtype_bytes(arithmetic_type(dtype)));
}

void fused_attention_forward(Stream& stream, const AttendedViews& attended,
                             const AttentionHeadViews& heads, float scale, std::string label) {
  stream.launch(make_call(
      fused_attention_forward_op,
      std::array{attended.probabilities, attended.merged, heads.query, heads.key, heads.value},
      params_of(heads, attended, scale), std::move(label)));
}

void fused_attention_backward(Stream& stream, const AttentionHeadViews& grad_heads,
                              const TensorView& grad_merged, const AttendedViews& attended,
                              const AttentionHeadViews& heads, float scale, std::string label) {
  stream.launch(make_call(
      fused_attention_backward_op,
      std::array{grad_heads.query, grad_heads.key, grad_heads.value, grad_merged, attended.merged,
                 heads.query, heads.key, heads.value, attended.probabilities},
      params_of(heads, attended, scale), std::move(label)));
}

}  // namespace cgconform::workloads
