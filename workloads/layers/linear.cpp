#include "workloads/layers/linear.hpp"

#include <utility>

#include "workloads/layers/layer_ops.hpp"
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
  if (!made.bias) return;
  bias_ = made_in.store.add(made.name + ".bias", {made.outputs}, bias_init,
                            made_in.first_number + made.bias_number, bias_shard);
}

void Linear::append_to(std::vector<Parameter>& parameters) const {
  parameters.push_back(weight_);
  if (declaration_.bias) parameters.push_back(bias_);
}

ColumnParallelLinear::ColumnParallelLinear(LinearDeclaration declaration,
                                           const ModuleParameters& made_in,
                                           const std::vector<std::int64_t>& sections)
    : Linear(std::move(declaration), made_in, shard_of(made_in.tensor, 0, sections),
             shard_of(made_in.tensor, 0, sections)) {}

Buffer ColumnParallelLinear::forward(LayerContext& context, const TensorView& x) const {
  return linear_forward(context, x, weight(), bias(), name());
}

Buffer ColumnParallelLinear::backward(LayerContext& context, const TensorView& grad_output,
                                      const TensorView& x) const {
  Buffer grad_x = linear_backward(context, grad_output, x, weight(), bias(), name());
  tensor().all_reduce(grad_x.view(), context.stream,
                      op_label(context, name()) + " backward all-reduce");
  return grad_x;
}

RowParallelLinear::RowParallelLinear(LinearDeclaration declaration, const ModuleParameters& made_in)
    : Linear(std::move(declaration), made_in, shard_of(made_in.tensor, 1), {}) {}

Buffer RowParallelLinear::forward(LayerContext& context, const TensorView& x,
                                  const TensorView& residual) const {
  if (!tensor().splits()) return linear_forward(context, x, weight(), bias(), name(), residual);
  Buffer y = linear_forward(context, x, weight(), nullptr, name());
  const std::string label = op_label(context, name());
  tensor().all_reduce(y.view(), context.stream, label + " all-reduce");
  if (bias() != nullptr) add_bias(context.stream, y.view(), bias()->weight, label + " bias");
  return y;
}

Buffer RowParallelLinear::backward(LayerContext& context, const TensorView& grad_output,
                                   const TensorView& x) const {
  return linear_backward(context, grad_output, x, weight(), bias(), name());
}

}  // namespace cgconform::workloads
