#include "workloads/ops/dropout.hpp"

#include <array>
#include <utility>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array forward_operands{OperandDeclaration{"output", Access::write},
                                      OperandDeclaration{"mask", Access::write},
                                      OperandDeclaration{"seed_and_offset", Access::accumulate},
                                      OperandDeclaration{"x", Access::read}};
constexpr std::array by_value_operands{
    OperandDeclaration{"output", Access::write}, OperandDeclaration{"mask", Access::write},
    OperandDeclaration{"seed_and_offset", Access::read}, OperandDeclaration{"x", Access::read}};
constexpr std::array backward_operands{OperandDeclaration{"grad_x", Access::write},
                                       OperandDeclaration{"grad_output", Access::read},
                                       OperandDeclaration{"mask", Access::read}};

}  // namespace

const OpDeclaration dropout_forward_op{"dropout_forward", forward_operands,
                                       reference::dropout_forward, cuda::dropout_forward};
const OpDeclaration dropout_by_value_op{"dropout_by_value", by_value_operands,
                                        reference::dropout_by_value, cuda::dropout_by_value};
const OpDeclaration dropout_backward_op{"dropout_backward", backward_operands,
                                        reference::dropout_backward, cuda::dropout_backward};

void dropout_forward(Stream& stream, const TensorView& output, const TensorView& mask,
                     const TensorView& seed_and_offset, const TensorView& x, float probability,
                     std::uint32_t advance, std::string label) {
  stream.launch(make_call(dropout_forward_op, std::array{output, mask, seed_and_offset, x},
                          OpParams::of(DropoutParams{probability, advance, 0}), std::move(label)));
}

void dropout_by_value(Stream& stream, const TensorView& output, const TensorView& mask,
                      const TensorView& seed_and_offset, const TensorView& x, float probability,
                      std::uint64_t offset, std::string label) {
  stream.launch(make_call(dropout_by_value_op, std::array{output, mask, seed_and_offset, x},
                          OpParams::of(DropoutParams{probability, 0, offset}), std::move(label)));
}

void dropout_backward(Stream& stream, const TensorView& grad_x, const TensorView& grad_output,
                      const TensorView& mask, float probability, std::string label) {
  stream.launch(make_call(dropout_backward_op, std::array{grad_x, grad_output, mask},
                          OpParams::of(DropoutParams{probability, 0, 0}), std::move(label)));
}

}  // namespace cgconform::workloads
