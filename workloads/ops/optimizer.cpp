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
                                  OperandDeclaration{"learning_rate", Access::read}};
constexpr std::array adam_operands{OperandDeclaration{"weight", Access::accumulate},
                                   OperandDeclaration{"first_moment", Access::accumulate},
                                   OperandDeclaration{"second_moment", Access::accumulate},
                                   OperandDeclaration{"grad", Access::read},
                                   OperandDeclaration{"learning_rate", Access::read},
                                   OperandDeclaration{"step", Access::read}};
constexpr std::array step_operands{OperandDeclaration{"step", Access::accumulate}};

}  // namespace

const OpDeclaration sgd_step_op{"sgd_step", sgd_operands, reference::sgd_step, cuda::sgd_step};
const OpDeclaration adam_step_op{"adam_step", adam_operands, reference::adam_step, cuda::adam_step};
const OpDeclaration advance_step_op{"advance_step", step_operands, reference::advance_step,
                                    cuda::advance_step};

void sgd_step(Stream& stream, const TensorView& weight, const TensorView& velocity,
              const TensorView& grad, const TensorView& learning_rate, const SgdParams& params,
              std::string label) {
  stream.launch(make_call(sgd_step_op, std::array{weight, velocity, grad, learning_rate},
                          OpParams::of(params), std::move(label)));
}

void adam_step(Stream& stream, const TensorView& weight, const TensorView& first_moment,
               const TensorView& second_moment, const TensorView& grad,
               const TensorView& learning_rate, const TensorView& step, const AdamParams& params,
               std::string label) {
  stream.launch(make_call(
      adam_step_op, std::array{weight, first_moment, second_moment, grad, learning_rate, step},
      OpParams::of(params), std::move(label)));
}

void advance_step(Stream& stream, const TensorView& step, std::string label) {
  stream.launch(make_call(advance_step_op, std::array{step}, {}, std::move(label)));
}

}  // namespace cgconform::workloads
