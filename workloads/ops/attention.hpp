#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalars of split_heads and merge_heads.
struct HeadsParams {
  std::int32_t sequences = 1;
  std::int32_t heads = 1;
  std::int32_t length = 1;
  std::int32_t size = 1;  ///< of a head
  std::int32_t part = 0;  ///< of split_heads only
  std::int32_t parts = 1;
};

/// By-value scalar of the masked softmax: scores are multiplied by it before the exponential.
struct SoftmaxParams {
  float scale = 1.0F;
};

extern const OpDeclaration split_heads_op;
extern const OpDeclaration merge_heads_op;
extern const OpDeclaration split_parts_op;
extern const OpDeclaration causal_softmax_forward_op;
extern const OpDeclaration causal_softmax_backward_op;

/// [sequences * length, heads * size] to [sequences * heads, length, size]; part `part` of `parts`
/// equal column ranges of the source (queries, keys and values side by side).
void split_heads(Stream& stream, const TensorView& heads, const TensorView& rows,
                 std::int32_t sequences, std::int32_t part, std::int32_t parts, std::string label);
/// The inverse for all parts at once: writes every column of rows from `parts`, one to three
/// tensors of equal shape. Throws InternalError for another number of them.
void merge_heads(Stream& stream, const TensorView& rows, std::span<const TensorView> parts,
                 std::int32_t sequences, std::string label);

/// split_heads of all parts at once: fills `parts`, one to three tensors of equal shape. Throws
/// InternalError for another number of them.
void split_parts(Stream& stream, std::span<const TensorView> parts, const TensorView& rows,
                 std::int32_t sequences, std::string label);

/// Row softmax of scale * scores [batch, length, length] over keys at or before the query; 0 after.
void causal_softmax_forward(Stream& stream, const TensorView& probabilities,
                            const TensorView& scores, float scale, std::string label);
/// Gradient of the unscaled scores.
void causal_softmax_backward(Stream& stream, const TensorView& grad_scores,
                             const TensorView& grad_probabilities, const TensorView& probabilities,
                             float scale, std::string label);

}  // namespace cgconform::workloads
