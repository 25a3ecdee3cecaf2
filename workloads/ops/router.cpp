#include "workloads/ops/router.hpp"

#include <array>
#include <utility>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array router_forward_operands{
    OperandDeclaration{"probabilities", Access::write},
    OperandDeclaration{"experts", Access::write}, OperandDeclaration{"scores", Access::write},
    OperandDeclaration{"logits", Access::read}, OperandDeclaration{"bias", Access::read, true}};
constexpr std::array router_backward_operands{
    OperandDeclaration{"grad_logits", Access::write},
    OperandDeclaration{"grad_probabilities", Access::read},
    OperandDeclaration{"experts", Access::read},
    OperandDeclaration{"scores", Access::read},
    OperandDeclaration{"load", Access::read},
    OperandDeclaration{"loss_scale", Access::read, true}};
constexpr std::array count_load_operands{OperandDeclaration{"load", Access::write},
                                         OperandDeclaration{"experts", Access::read}};
constexpr std::array balancing_loss_operands{OperandDeclaration{"loss", Access::write},
                                             OperandDeclaration{"load", Access::read},
                                             OperandDeclaration{"scores", Access::read}};
constexpr std::array load_gradient_operands{OperandDeclaration{"grad_bias", Access::accumulate},
                                            OperandDeclaration{"load", Access::read},
                                            OperandDeclaration{"loss_scale", Access::read, true}};
constexpr std::array jitter_operands{OperandDeclaration{"output", Access::write},
                                     OperandDeclaration{"noise", Access::write},
                                     OperandDeclaration{"seed_and_offset", Access::accumulate},
                                     OperandDeclaration{"x", Access::read}};
constexpr std::array multiply_operands{OperandDeclaration{"product", Access::write},
                                       OperandDeclaration{"a", Access::read},
                                       OperandDeclaration{"b", Access::read}};

}  // namespace

const OpDeclaration top_k_router_forward_op{"top_k_router_forward", router_forward_operands,
                                            reference::top_k_router_forward,
                                            cuda::top_k_router_forward};
const OpDeclaration top_k_router_backward_op{"top_k_router_backward", router_backward_operands,
                                             reference::top_k_router_backward,
                                             cuda::top_k_router_backward};
const OpDeclaration count_load_op{"count_load", count_load_operands, reference::count_load,
                                  cuda::count_load};
const OpDeclaration load_balancing_loss_op{"load_balancing_loss", balancing_loss_operands,
                                           reference::load_balancing_loss,
                                           cuda::load_balancing_loss};
const OpDeclaration load_gradient_op{"load_gradient", load_gradient_operands,
                                     reference::load_gradient, cuda::load_gradient};
const OpDeclaration jitter_forward_op{"jitter_forward", jitter_operands, reference::jitter_forward,
                                      cuda::jitter_forward};
const OpDeclaration multiply_op{"multiply", multiply_operands, reference::multiply, cuda::multiply};

void top_k_router_forward(Stream& stream, const TensorView& probabilities,
                          const TensorView& experts, const TensorView& scores,
                          const TensorView& logits, const TensorView& bias, std::string label) {
  stream.launch(make_call(top_k_router_forward_op,
                          std::array{probabilities, experts, scores, logits, bias}, {},
                          std::move(label)));
}

void top_k_router_backward(Stream& stream, const TensorView& grad_logits,
                           const TensorView& grad_probabilities, const TensorView& experts,
                           const TensorView& scores, const TensorView& load,
                           const TensorView& loss_scale, float balance_scale, std::string label) {
  stream.launch(
      make_call(top_k_router_backward_op,
                std::array{grad_logits, grad_probabilities, experts, scores, load, loss_scale},
                OpParams::of(BalanceParams{balance_scale}), std::move(label)));
}

void count_load(Stream& stream, const TensorView& load, const TensorView& experts,
                std::string label) {
  stream.launch(make_call(count_load_op, std::array{load, experts}, {}, std::move(label)));
}

void load_balancing_loss(Stream& stream, const TensorView& loss, const TensorView& load,
                         const TensorView& scores, float scale, std::string label) {
  stream.launch(make_call(load_balancing_loss_op, std::array{loss, load, scores},
                          OpParams::of(BalanceParams{scale}), std::move(label)));
}

void load_gradient(Stream& stream, const TensorView& grad_bias, const TensorView& load,
                   const TensorView& loss_scale, const BalanceParams& params, std::string label) {
  stream.launch(make_call(load_gradient_op, std::array{grad_bias, load, loss_scale},
                          OpParams::of(params), std::move(label)));
}

void jitter_forward(Stream& stream, const TensorView& output, const TensorView& noise,
                    const TensorView& seed_and_offset, const TensorView& x,
                    const JitterParams& params, std::string label) {
  stream.launch(make_call(jitter_forward_op, std::array{output, noise, seed_and_offset, x},
                          OpParams::of(params), std::move(label)));
}

void multiply(Stream& stream, const TensorView& product, const TensorView& a, const TensorView& b,
              std::string label) {
  stream.launch(make_call(multiply_op, std::array{product, a, b}, {}, std::move(label)));
}

}  // namespace cgconform::workloads
