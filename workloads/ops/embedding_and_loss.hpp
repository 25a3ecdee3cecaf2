#pragma once

#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalar of the cross entropy's backward: 1 / number of micro-batches.
struct LossParams {
  float grad_scale = 1.0F;
};

extern const OpDeclaration embedding_forward_op;
extern const OpDeclaration embedding_backward_op;
extern const OpDeclaration cross_entropy_forward_op;
extern const OpDeclaration cross_entropy_backward_op;

/// output [rows, hidden] = token_table[tokens[row]] + position_table[row % length], where length is
/// the extent of position_table. Tokens are int32; one outside of the table reads row 0.
void embedding_forward(Stream& stream, const TensorView& output, const TensorView& tokens,
                       const TensorView& token_table, const TensorView& position_table,
                       std::string label);
/// Adds to both tables' gradients, of grad_output's arithmetic type, in row order.
void embedding_backward(Stream& stream, const TensorView& grad_token_table,
                        const TensorView& grad_position_table, const TensorView& tokens,
                        const TensorView& grad_output, std::string label);

/// loss [scalar] = mean over rows with loss_mask 1 of -log softmax(logits)[label]; 0 where no row
/// counts. Rows with loss_mask 0 (padding) do not contribute, whatever they hold. Keeps the
/// probabilities [rows, vocabulary]. Loss, probabilities and mask have the logits' arithmetic type.
void cross_entropy_forward(Stream& stream, const TensorView& loss, const TensorView& probabilities,
                           const TensorView& logits, const TensorView& labels,
                           const TensorView& loss_mask, std::string label);
/// grad_logits = grad_scale * loss_scale * d loss / d logits; 0 in rows that do not count. The loss
/// scale is a scalar in device memory; an invalid view stands for 1.
void cross_entropy_backward(Stream& stream, const TensorView& grad_logits,
                            const TensorView& probabilities, const TensorView& labels,
                            const TensorView& loss_mask, const TensorView& loss_scale,
                            float grad_scale, std::string label);

}  // namespace cgconform::workloads
