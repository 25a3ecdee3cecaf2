#include "workloads/ops/embedding_and_loss.hpp"

#include <array>
#include <utility>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array embedding_operands{OperandDeclaration{"output", Access::write},
                                        OperandDeclaration{"tokens", Access::read},
                                        OperandDeclaration{"token_table", Access::read},
                                        OperandDeclaration{"position_table", Access::read}};
constexpr std::array embedding_backward_operands{
    OperandDeclaration{"grad_token_table", Access::accumulate},
    OperandDeclaration{"grad_position_table", Access::accumulate},
    OperandDeclaration{"tokens", Access::read}, OperandDeclaration{"grad_output", Access::read}};
constexpr std::array loss_operands{
    OperandDeclaration{"loss", Access::write}, OperandDeclaration{"probabilities", Access::write},
    OperandDeclaration{"logits", Access::read}, OperandDeclaration{"labels", Access::read},
    OperandDeclaration{"loss_mask", Access::read}};
constexpr std::array loss_backward_operands{OperandDeclaration{"grad_logits", Access::write},
                                            OperandDeclaration{"probabilities", Access::read},
                                            OperandDeclaration{"labels", Access::read},
                                            OperandDeclaration{"loss_mask", Access::read},
                                            OperandDeclaration{"loss_scale", Access::read, true}};

}  // namespace

const OpDeclaration embedding_forward_op{"embedding_forward", embedding_operands,
                                         reference::embedding_forward, cuda::embedding_forward};
const OpDeclaration embedding_backward_op{"embedding_backward", embedding_backward_operands,
                                          reference::embedding_backward, cuda::embedding_backward};
const OpDeclaration cross_entropy_forward_op{"cross_entropy_forward", loss_operands,
                                             reference::cross_entropy_forward,
                                             cuda::cross_entropy_forward};
const OpDeclaration cross_entropy_backward_op{"cross_entropy_backward", loss_backward_operands,
                                              reference::cross_entropy_backward,
                                              cuda::cross_entropy_backward};

void embedding_forward(Stream& stream, const TensorView& output, const TensorView& tokens,
                       const TensorView& token_table, const TensorView& position_table,
                       std::string label) {
  stream.launch(make_call(embedding_forward_op,
                          std::array{output, tokens, token_table, position_table}, {},
                          std::move(label)));
}

void embedding_backward(Stream& stream, const TensorView& grad_token_table,
                        const TensorView& grad_position_table, const TensorView& tokens,
                        const TensorView& grad_output, std::string label) {
  stream.launch(make_call(embedding_backward_op,
                          std::array{grad_token_table, grad_position_table, tokens, grad_output},
                          {}, std::move(label)));
}

void cross_entropy_forward(Stream& stream, const TensorView& loss, const TensorView& probabilities,
                           const TensorView& logits, const TensorView& labels,
                           const TensorView& loss_mask, std::string label) {
  stream.launch(make_call(cross_entropy_forward_op,
                          std::array{loss, probabilities, logits, labels, loss_mask}, {},
                          std::move(label)));
}

void cross_entropy_backward(Stream& stream, const TensorView& grad_logits,
                            const TensorView& probabilities, const TensorView& labels,
                            const TensorView& loss_mask, const TensorView& loss_scale,
                            float grad_scale, std::string label) {
  stream.launch(make_call(cross_entropy_backward_op,
                          std::array{grad_logits, probabilities, labels, loss_mask, loss_scale},
                          OpParams::of(LossParams{grad_scale}), std::move(label)));
}

}  // namespace cgconform::workloads
