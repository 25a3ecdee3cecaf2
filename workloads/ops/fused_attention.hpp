#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalars of attention in one op.
struct FusedAttentionParams {
  float scale = 1.0F;      ///< of the scores
  std::int32_t heads = 1;  ///< of each sequence
};

/// Queries, keys and values, or their gradients: each [sequences * heads, length, size]. Or, side
/// by side, all in the first, [sequences * length, 3 * heads * size], and the others invalid.
struct AttentionHeadViews {
  TensorView query;
  TensorView key;
  TensorView value;
};

/// What attention gives: the probabilities, [sequences * heads, length, length], which its backward
/// reads, and the context with its heads side by side, [sequences * length, heads * size].
struct AttendedViews {
  TensorView probabilities;
  TensorView merged;
};

extern const OpDeclaration fused_attention_forward_op;
extern const OpDeclaration fused_attention_backward_op;

/// True where one op can do attention of such heads on every device: they are small enough for a
/// GPU's shared memory. Longer sequences are the work of products and a softmax.
bool fits_fused_attention(DType dtype, std::int64_t length, std::int64_t size);

/// Causal attention: the softmax of scale * query * key^T, each query over the keys at or before
/// it, times value. What lies in between is not rounded. Throws InternalError for heads that do not
/// fit.
void fused_attention_forward(Stream& stream, const AttendedViews& attended,
                             const AttentionHeadViews& heads, float scale, std::string label);
/// From the gradient of `attended.merged`. The probabilities may be 0 for keys before the query
/// too.
void fused_attention_backward(Stream& stream, const AttentionHeadViews& grad_heads,
                              const TensorView& grad_merged, const AttendedViews& attended,
                              const AttentionHeadViews& heads, float scale, std::string label);

}  // namespace cgconform::workloads
