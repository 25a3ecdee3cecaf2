#include "workloads/layers/mlp.hpp"

#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/elementwise.hpp"

namespace cgconform::workloads {

namespace {

using matrix::RecomputeModule;

/// Numbers of the parameters after the module's first.
enum Number : std::uint64_t {
  norm_numbers,
  fc1_weight_number = norm_numbers + 2,
  fc2_weight_number,
  fc1_bias_number,
  fc2_bias_number,
};

}  // namespace

Mlp::Mlp(std::string layer_name, const TransformerShape& shape, const ModuleParameters& made_in)
    : name_(std::move(layer_name)),
      shape_(shape),
      norm_("pre_mlp_layernorm", shape.hidden, made_in.store, made_in.first_number + norm_numbers) {
  const std::int64_t hidden = shape_.hidden;
  const std::int64_t ffn = shape_.ffn_hidden;
  const auto added = [&](const char* parameter_name, const Shape& extents,
                         const ParameterInit& init, Number number) {
    return parameters_.emplace_back(
        made_in.store.add(parameter_name, extents, init, made_in.first_number + number));
  };
  parameters_ = {norm_.weight(), norm_.bias()};
  fc1_weight_ =
      added("mlp.linear_fc1.weight", {ffn, hidden}, weight_init(hidden), fc1_weight_number);
  fc2_weight_ = added("mlp.linear_fc2.weight", {hidden, ffn}, weight_init(ffn), fc2_weight_number);
  if (shape_.bias) {
    fc1_bias_ = added("mlp.linear_fc1.bias", {ffn}, bias_init, fc1_bias_number);
    fc2_bias_ = added("mlp.linear_fc2.bias", {hidden}, bias_init, fc2_bias_number);
  }
}

Buffer Mlp::forward(LayerContext& context, const TensorView& input, SavedActivations& saved) {
  Buffer normed = norm_.forward(context, input, saved);
  Buffer contracted = checkpoint(context, RecomputeModule::mlp, saved, "mlp",
                                 [&](LayerContext& run, SavedActivations& kept) {
                                   return feed_forward(run, normed.view(), kept);
                                 });
  norm_.keep_or_discard(context, input, std::move(normed), saved);
  const Buffer branch =
      dropout(context, std::move(contracted), shape_.hidden_dropout, saved, "mlp.dropout");
  Buffer output = make_buffer(context, input.dtype, input.shape, "output");
  add(context.stream, output.view(), input, branch.view(), op_label(context, "mlp residual"));
  return output;
}

Buffer Mlp::feed_forward(LayerContext& context, const TensorView& normed, SavedActivations& saved) {
  Buffer expanded = linear_forward(context, normed, fc1_weight_, fc1_bias(), "mlp.linear_fc1");
  Buffer activated = make_buffer(context, normed.dtype, expanded.view().shape, "mlp.activation");
  gelu_forward(context.stream, activated.view(), expanded.view(),
               op_label(context, "mlp.activation"));
  Buffer contracted =
      linear_forward(context, activated.view(), fc2_weight_, fc2_bias(), "mlp.linear_fc2");
  keep(context, saved, "mlp.linear_fc1.output", std::move(expanded));
  keep(context, saved, "mlp.activation.output", std::move(activated));
  return contracted;
}

Buffer Mlp::backward(LayerContext& context, const TensorView& grad_output,
                     SavedActivations& saved) {
  Stream& stream = context.stream;
  const DType dtype = grad_output.dtype;
  const Buffer dropped_grad =
      dropout_grad(context, grad_output, shape_.hidden_dropout, saved, "mlp.dropout");
  const TensorView& grad = dropped_grad.valid() ? dropped_grad.view() : grad_output;
  norm_.recompute_output(context, saved);
  recompute(context, saved, "mlp", [&](LayerContext& again) {
    const Buffer contracted = feed_forward(again, norm_.output(saved), saved);
  });
  const Buffer grad_activated = linear_backward(context, grad, saved.at("mlp.activation.output"),
                                                fc2_weight_, fc2_bias(), "mlp.linear_fc2");
  const TensorView expanded = saved.at("mlp.linear_fc1.output");
  const Buffer grad_expanded = make_buffer(context, dtype, expanded.shape, "mlp.activation");
  gelu_backward(stream, grad_expanded.view(), grad_activated.view(), expanded,
                op_label(context, "mlp.activation backward"));
  const Buffer grad_normed = linear_backward(context, grad_expanded.view(), norm_.output(saved),
                                             fc1_weight_, fc1_bias(), "mlp.linear_fc1");
  const Buffer grad_branch = norm_.backward(context, grad_normed.view(), saved);
  Buffer grad_input = make_buffer(context, dtype, grad_output.shape, "grad_attended");
  add(stream, grad_input.view(), grad_output, grad_branch.view(),
      op_label(context, "mlp residual backward"));
  return grad_input;
}

}  // namespace cgconform::workloads
