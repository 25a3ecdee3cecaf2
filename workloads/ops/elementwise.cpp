#include "workloads/ops/elementwise.hpp"

#include <array>
#include <utility>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array add_operands{OperandDeclaration{"sum", Access::write},
                                  OperandDeclaration{"a", Access::read},
                                  OperandDeclaration{"b", Access::read}};
constexpr std::array accumulate_operands{OperandDeclaration{"destination", Access::accumulate},
                                         OperandDeclaration{"source", Access::read}};
constexpr std::array scale_operands{OperandDeclaration{"x", Access::accumulate}};
constexpr std::array axpy_operands{OperandDeclaration{"y", Access::accumulate},
                                   OperandDeclaration{"x", Access::read}};
constexpr std::array add_bias_operands{OperandDeclaration{"x", Access::accumulate},
                                       OperandDeclaration{"bias", Access::read}};
/// Further pairs may follow.
constexpr std::array bias_grads_operands{
    OperandDeclaration{"grad_bias", Access::accumulate},
    OperandDeclaration{"grad_output", Access::read},
    OperandDeclaration{"next_grad_bias", Access::accumulate, true},
    OperandDeclaration{"next_grad_output", Access::read, true}};
constexpr std::array bias_grad_operands{OperandDeclaration{"grad_bias", Access::accumulate},
                                        OperandDeclaration{"grad_output", Access::read}};
constexpr std::array cast_operands{OperandDeclaration{"destination", Access::write},
                                   OperandDeclaration{"source", Access::read}};
constexpr std::array gelu_forward_operands{OperandDeclaration{"output", Access::write},
                                           OperandDeclaration{"x", Access::read}};
constexpr std::array gelu_backward_operands{OperandDeclaration{"grad_x", Access::write},
                                            OperandDeclaration{"grad_output", Access::read},
                                            OperandDeclaration{"x", Access::read}};

}  // namespace

const OpDeclaration add_op{"add", add_operands, reference::add, cuda::add};
const OpDeclaration accumulate_op{"accumulate", accumulate_operands, reference::accumulate,
                                  cuda::accumulate};
const OpDeclaration scale_op{"scale", scale_operands, reference::scale, cuda::scale};
const OpDeclaration axpy_op{"axpy", axpy_operands, reference::axpy, cuda::axpy};
const OpDeclaration add_bias_op{"add_bias", add_bias_operands, reference::add_bias, cuda::add_bias};
const OpDeclaration bias_grad_op{"bias_grad", bias_grad_operands, reference::bias_grad,
                                 cuda::bias_grad};
const OpDeclaration bias_grads_op{"bias_grads", bias_grads_operands, reference::bias_grads,
                                  cuda::bias_grads};
const OpDeclaration cast_op{"cast", cast_operands, reference::cast, cuda::cast};
const OpDeclaration gelu_forward_op{"gelu_forward", gelu_forward_operands, reference::gelu_forward,
                                    cuda::gelu_forward};
const OpDeclaration gelu_backward_op{"gelu_backward", gelu_backward_operands,
                                     reference::gelu_backward, cuda::gelu_backward};

void add(Stream& stream, const TensorView& sum, const TensorView& a, const TensorView& b,
         std::string label) {
  stream.launch(make_call(add_op, std::array{sum, a, b}, {}, std::move(label)));
}

void accumulate(Stream& stream, const TensorView& destination, const TensorView& source,
                std::string label) {
  stream.launch(make_call(accumulate_op, std::array{destination, source}, {}, std::move(label)));
}

void scale(Stream& stream, const TensorView& x, float factor, std::string label) {
  stream.launch(
      make_call(scale_op, std::array{x}, OpParams::of(FactorParams{factor}), std::move(label)));
}

void axpy(Stream& stream, const TensorView& y, float factor, const TensorView& x,
          std::string label) {
  stream.launch(
      make_call(axpy_op, std::array{y, x}, OpParams::of(FactorParams{factor}), std::move(label)));
}

void add_bias(Stream& stream, const TensorView& x, const TensorView& bias, std::string label) {
  stream.launch(make_call(add_bias_op, std::array{x, bias}, {}, std::move(label)));
}

void bias_grad(Stream& stream, const TensorView& grad_bias, const TensorView& grad_output,
               std::string label) {
  stream.launch(make_call(bias_grad_op, std::array{grad_bias, grad_output}, {}, std::move(label)));
}

void bias_grads(Stream& stream, std::span<const BiasGradient> gradients, std::string label) {
  OpCall call{.op = &bias_grads_op, .operands = {}, .params = {}, .label = std::move(label)};
  call.operands.reserve(2 * gradients.size());
  for (const auto& [grad_bias, grad_output] : gradients) {
    call.operands.push_back({"grad_bias", Access::accumulate, grad_bias});
    call.operands.push_back({"grad_output", Access::read, grad_output});
  }
  if (!gradients.empty()) stream.launch(call);
}

void cast(Stream& stream, const TensorView& destination, const TensorView& source,
          std::string label) {
  stream.launch(make_call(cast_op, std::array{destination, source}, {}, std::move(label)));
}

void gelu_forward(Stream& stream, const TensorView& output, const TensorView& x,
                  std::string label) {
  stream.launch(make_call(gelu_forward_op, std::array{output, x}, {}, std::move(label)));
}

void gelu_backward(Stream& stream, const TensorView& grad_x, const TensorView& grad_output,
                   const TensorView& x, std::string label) {
  stream.launch(
      make_call(gelu_backward_op, std::array{grad_x, grad_output, x}, {}, std::move(label)));
}

}  // namespace cgconform::workloads
