#include "workloads/ops/expert_rows.hpp"

#include <array>
#include <utility>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array assign_slots_operands{
    OperandDeclaration{"slots", Access::write}, OperandDeclaration{"sources", Access::write},
    OperandDeclaration{"overflow", Access::write}, OperandDeclaration{"experts", Access::read},
    OperandDeclaration{"load", Access::read}};
constexpr std::array dispatch_operands{
    OperandDeclaration{"rows", Access::write}, OperandDeclaration{"x", Access::read},
    OperandDeclaration{"sources", Access::read}, OperandDeclaration{"weights", Access::read, true}};
constexpr std::array combine_operands{
    OperandDeclaration{"output", Access::write}, OperandDeclaration{"rows", Access::read},
    OperandDeclaration{"slots", Access::read}, OperandDeclaration{"weights", Access::read, true}};
constexpr std::array weights_backward_operands{OperandDeclaration{"grad_weights", Access::write},
                                               OperandDeclaration{"grad_output", Access::read},
                                               OperandDeclaration{"rows", Access::read},
                                               OperandDeclaration{"slots", Access::read}};

}  // namespace

const OpDeclaration assign_slots_op{"assign_slots", assign_slots_operands, reference::assign_slots,
                                    cuda::assign_slots};
const OpDeclaration dispatch_rows_op{"dispatch_rows", dispatch_operands, reference::dispatch_rows,
                                     cuda::dispatch_rows};
const OpDeclaration combine_rows_op{"combine_rows", combine_operands, reference::combine_rows,
                                    cuda::combine_rows};
const OpDeclaration combine_weights_backward_op{
    "combine_weights_backward", weights_backward_operands, reference::combine_weights_backward,
    cuda::combine_weights_backward};

void assign_slots(Stream& stream, const TensorView& slots, const TensorView& sources,
                  const TensorView& overflow, const TensorView& experts, const TensorView& load,
                  std::int32_t capacity, std::string label) {
  stream.launch(make_call(assign_slots_op, std::array{slots, sources, overflow, experts, load},
                          OpParams::of(SlotParams{.capacity = capacity}), std::move(label)));
}

void dispatch_rows(Stream& stream, const TensorView& rows, const TensorView& x,
                   const TensorView& sources, const TensorView& weights, std::int32_t top_k,
                   std::string label) {
  stream.launch(make_call(dispatch_rows_op, std::array{rows, x, sources, weights},
                          OpParams::of(SlotParams{.top_k = top_k}), std::move(label)));
}

void combine_rows(Stream& stream, const TensorView& output, const TensorView& rows,
                  const TensorView& slots, const TensorView& weights, std::string label) {
  stream.launch(
      make_call(combine_rows_op, std::array{output, rows, slots, weights}, {}, std::move(label)));
}

void combine_weights_backward(Stream& stream, const TensorView& grad_weights,
                              const TensorView& grad_output, const TensorView& rows,
                              const TensorView& slots, std::string label) {
  stream.launch(make_call(combine_weights_backward_op,
                          std::array{grad_weights, grad_output, rows, slots}, {},
                          std::move(label)));
}

}  // namespace cgconform::workloads
