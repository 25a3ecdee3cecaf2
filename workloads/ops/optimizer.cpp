#include "workloads/ops/optimizer.hpp"

#include <array>
#include <utility>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array sgd_operands{OperandDeclaration{"weight", Access::accumulate},
                                  OperandDeclaration{"velocity", Access::accumulate},
                                  OperandDeclaration{"grad", Access::read},
                                  OperandDeclaration{"learning_rate", Access::read},
                                  OperandDeclaration{"overflowed", Access::read, true}};
constexpr std::array adam_operands{OperandDeclaration{"weight", Access::accumulate},
                                   OperandDeclaration{"first_moment", Access::accumulate},
                                   OperandDeclaration{"second_moment", Access::accumulate},
                                   OperandDeclaration{"grad", Access::read},
                                   OperandDeclaration{"learning_rate", Access::read},
                                   OperandDeclaration{"step", Access::read},
                                   OperandDeclaration{"overflowed", Access::read, true}};
constexpr std::array step_operands{OperandDeclaration{"step", Access::accumulate},
                                   OperandDeclaration{"overflowed", Access::read, true}};
constexpr std::array unscale_operands{OperandDeclaration{"grad", Access::accumulate},
                                      OperandDeclaration{"overflowed", Access::accumulate},
                                      OperandDeclaration{"loss_scale", Access::read}};
constexpr std::array loss_scale_operands{OperandDeclaration{"loss_scale", Access::accumulate},
                                         OperandDeclaration{"good_steps", Access::accumulate},
                                         OperandDeclaration{"overflowed", Access::read}};

}  // namespace

const OpDeclaration sgd_step_op{"sgd_step", sgd_operands, reference::sgd_step, cuda::sgd_step};
const OpDeclaration adam_step_op{"adam_step", adam_operands, reference::adam_step, cuda::adam_step};
const OpDeclaration advance_step_op{"advance_step", step_operands, reference::advance_step,
                                    cuda::advance_step};
const OpDeclaration unscale_gradients_op{"unscale_gradients", unscale_operands,
                                         reference::unscale_gradients, cuda::unscale_gradients};
const OpDeclaration update_loss_scale_op{"update_loss_scale", loss_scale_operands,
                                         reference::update_loss_scale, cuda::update_loss_scale};

void sgd_step(Stream& stream, const TensorView& weight, const TensorView& velocity,
              const TensorView& grad, const TensorView& learning_rate, const TensorView& overflowed,
              const SgdParams& params, std::string label) {
  stream.launch(make_call(sgd_step_op,
                          std::array{weight, velocity, grad, learning_rate, overflowed},
                          OpParams::of(params), std::move(label)));
}

void adam_step(Stream& stream, const TensorView& weight, const TensorView& first_moment,
               const TensorView& second_moment, const TensorView& grad,
               const TensorView& learning_rate, const TensorView& step,
               const TensorView& overflowed, const AdamParams& params, std::string label) {
  stream.launch(make_call(
      adam_step_op,
      std::array{weight, first_moment, second_moment, grad, learning_rate, step, overflowed},
      OpParams::of(params), std::move(label)));
}

void advance_step(Stream& stream, const TensorView& step, const TensorView& overflowed,
                  std::string label) {
  stream.launch(make_call(advance_step_op, std::array{step, overflowed}, {}, std::move(label)));
}

void unscale_gradients(Stream& stream, const TensorView& grad, const TensorView& overflowed,
                       const TensorView& loss_scale, std::string label) {
  stream.launch(make_call(unscale_gradients_op, std::array{grad, overflowed, loss_scale}, {},
                          std::move(label)));
}

void update_loss_scale(Stream& stream, const TensorView& loss_scale, const TensorView& good_steps,
                       const TensorView& overflowed, const LossScaleParams& params,
                       std::string label) {
  stream.launch(make_call(update_loss_scale_op, std::array{loss_scale, good_steps, overflowed},
                          OpParams::of(params), std::move(label)));
}

}  // namespace cgconform::workloads
