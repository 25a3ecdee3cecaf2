#include "workloads/ops/fused_attention.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/fused_attention_memory.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array forward_operands{
    OperandDeclaration{"probabilities", Access::write}, OperandDeclaration{"merged", Access::write},
    OperandDeclaration{"query", Access::read}, OperandDeclaration{"key", Access::read, true},
    OperandDeclaration{"value", Access::read, true}};
constexpr std::array backward_operands{OperandDeclaration{"grad_query", Access::write},
                                       OperandDeclaration{"grad_merged", Access::read},
                                       OperandDeclaration{"merged", Access::read},
                                       OperandDeclaration{"probabilities", Access::read},
                                       OperandDeclaration{"query", Access::read},
                                       OperandDeclaration{"key", Access::read, true},
                                       OperandDeclaration{"value", Access::read, true},
                                       OperandDeclaration{"grad_key", Access::write, true},
                                       OperandDeclaration{"grad_value", Access::write, true}};

/// True for three parts of the shape, or rows of the three side by side.
bool are_heads(const AttentionHeadViews& heads, const Shape& per_head) {
  if (heads.key.valid() || heads.value.valid()) {
    return heads.query.shape == per_head && heads.key.shape == per_head &&
           heads.value.shape == per_head;
  }
  return heads.query.elements() == 3 * per_head.elements();
}

OpParams params_of(const AttendedViews& attended, std::span<const AttentionHeadViews> all_heads,
                   float scale) {
  const Shape& scores = attended.probabilities.shape;
  const Shape& merged = attended.merged.shape;
  const std::int64_t length = scores[1];
  const std::int64_t sequences = merged[0] / length;
  FusedAttentionParams params;
  params.scale = scale;
  params.heads = static_cast<std::int32_t>(scores[0] / sequences);
  const std::int64_t size = merged[1] / params.heads;
  if (!fits_fused_attention(attended.merged.dtype, length, size)) {
    throw InternalError("fused_attention: heads of this length and size do not fit");
  }
  const Shape per_head{scores[0], length, size};
  const bool agree = per_head.elements() == attended.merged.elements() &&
                     std::all_of(all_heads.begin(), all_heads.end(),
                                 [&](const auto& heads) { return are_heads(heads, per_head); });
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
      params_of(attended, std::array{heads}, scale), std::move(label)));
}

void fused_attention_backward(Stream& stream, const AttentionHeadViews& grad_heads,
                              const TensorView& grad_merged, const AttendedViews& attended,
                              const AttentionHeadViews& heads, float scale, std::string label) {
  stream.launch(
      make_call(fused_attention_backward_op,
                std::array{grad_heads.query, grad_merged, attended.merged, attended.probabilities,
                           heads.query, heads.key, heads.value, grad_heads.key, grad_heads.value},
                params_of(attended, std::array{heads, grad_heads}, scale), std::move(label)));
}

}  // namespace cgconform::workloads
