#include "workloads/layers/linear.hpp"

#include <utility>

#include "workloads/layers/bias_gradients.hpp"
#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/shared_rows.hpp"
#include "workloads/ops/elementwise.hpp"

namespace cgconform::workloads {

namespace {

ParameterShard shard_of(const TensorParallel& tensor, int axis,
                        std::vector<std::int64_t> sections = {}) {
  return {
      .axis = axis, .part = tensor.rank(), .parts = tensor.size(), .sections = std::move(sections)};
}

}  // namespace

Linear::Linear(LinearDeclaration declaration, const ModuleParameters& made_in,
               const ParameterShard& weight_shard, const ParameterShard& bias_shard)
    : declaration_(std::move(declaration)), tensor_(made_in.tensor) {
  const LinearDeclaration& made = declaration_;
  weight_ = made_in.store.add(made.name + ".weight", {made.outputs, made.inputs},
                              weight_init(made.inputs), made_in.first_number + made.weight_number,
                              weight_shard);
  if (made_in.fp8 != nullptr) fp8_.emplace(*made_in.fp8, weight_);
  if (!made.bias) return;
  bias_ = made_in.store.add(made.name + ".bias", {made.outputs}, bias_init,
                            made_in.first_number + made.bias_number, bias_shard);
}

void Linear::append_to(std::vector<Parameter>& parameters) const {
  parameters.push_back(weight_);
  if (declaration_.bias) parameters.push_back(bias_);
}

Buffer Linear::multiply(LayerContext& context, const TensorView& x, bool with_bias,
                        const TensorView& residual) const {
  if (!fp8_) {
    return linear_forward(context, x, weight_, with_bias ? bias() : nullptr, name(), residual);
  }
  Buffer y = fp8_->forward(context, x, name());
  if (with_bias) add_bias_to(context, y.view());
  return y;
}

void Linear::add_bias_to(LayerContext& context, const TensorView& y) const {
  if (!declaration_.bias) return;
  add_bias(context.stream, y, bias_.weight, op_label(context, name()) + " bias");
}

Buffer Linear::multiply_backward(LayerContext& context, const TensorView& grad_output,
                                 const TensorView& x) const {
  if (!fp8_) return linear_backward(context, grad_output, x, weight_, bias(), name());
  if (declaration_.bias && context.delayed == nullptr) {
    add_bias_gradient(context, bias_.main_grad, grad_output,
                      op_label(context, name()) + " bias backward");
  } else if (declaration_.bias) {
    const std::string of_bias = name() + " bias";
    context.delayed->leave(
        {of_bias, grad_output, x,
         [grad_output, grad_of_bias = bias_.main_grad, of_bias](LayerContext& later) {
           add_bias_gradient(later, grad_of_bias, grad_output,
                             op_label(later, of_bias) + " backward");
         }});
  }
  return fp8_->backward(context, grad_output, x, name());
}

ColumnParallelLinear::ColumnParallelLinear(LinearDeclaration declaration,
                                           const ModuleParameters& made_in,
                                           const std::vector<std::int64_t>& sections)
    : Linear(std::move(declaration), made_in, shard_of(made_in.tensor, 0, sections),
             shard_of(made_in.tensor, 0, sections)) {}

Buffer ColumnParallelLinear::forward(LayerContext& context, const TensorView& x) const {
  Buffer gathered;
  return multiply(context, gather_rows(context, tensor(), x, gathered, name()), true);
}

Buffer ColumnParallelLinear::backward(LayerContext& context, const TensorView& grad_output,
                                      const TensorView& x) const {
  Buffer gathered;
  const TensorView all = gather_rows(context, tensor(), x, gathered, name() + " backward");
  Buffer grad_x = multiply_backward(context, grad_output, all);
  keep_for_wgrads(context, gathered);
  return sum_rows(context, tensor(), std::move(grad_x), name() + " backward");
}

DuplicatedLinear::DuplicatedLinear(LinearDeclaration declaration, const ModuleParameters& made_in)
    : Linear(std::move(declaration), made_in, {}, {}) {
  if (tensor().shares_rows()) mark_partial_gradients();
}

Buffer DuplicatedLinear::forward(LayerContext& context, const TensorView& x) const {
  return multiply(context, x, true);
}

Buffer DuplicatedLinear::backward(LayerContext& context, const TensorView& grad_output,
                                  const TensorView& x) const {
  return multiply_backward(context, grad_output, x);
}

SharedInputLinear::SharedInputLinear(LinearDeclaration declaration, const ModuleParameters& made_in,
                                     OutputShare share)
    : Linear(std::move(declaration), made_in,
             share == OutputShare::equal ? shard_of(made_in.tensor, 0) : ParameterShard{},
             share == OutputShare::equal ? shard_of(made_in.tensor, 0) : ParameterShard{}) {
  if (share == OutputShare::whole && tensor().splits()) mark_partial_gradients();
}

Buffer SharedInputLinear::forward(LayerContext& context, const TensorView& x) const {
  return multiply(context, x, true);
}

Buffer SharedInputLinear::backward(LayerContext& context, const TensorView& grad_output,
                                   const TensorView& x) const {
  return multiply_backward(context, grad_output, x);
}

RowParallelLinear::RowParallelLinear(LinearDeclaration declaration, const ModuleParameters& made_in)
    : Linear(std::move(declaration), made_in, shard_of(made_in.tensor, 1), {}) {}

Buffer RowParallelLinear::forward(LayerContext& context, const TensorView& x,
                                  const TensorView& residual) const {
  if (!tensor().splits()) return multiply(context, x, true, residual);
  Buffer y = sum_rows(context, tensor(), multiply(context, x, false), name());
  add_bias_to(context, y.view());
  return y;
}

Buffer RowParallelLinear::backward(LayerContext& context, const TensorView& grad_output,
                                   const TensorView& x) const {
  Buffer gathered;
  const TensorView all =
      gather_rows(context, tensor(), grad_output, gathered, name() + " backward");
  Buffer grad_x = multiply_backward(context, all, x);
  keep_for_wgrads(context, gathered);
  return grad_x;
}

}  // namespace cgconform::workloads
