#include "workloads/layers/mlp.hpp"

#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/shared_rows.hpp"
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
      tensor_(made_in.tensor),
      norm_("pre_mlp_layernorm", shape.hidden, made_in, norm_numbers),
      fc1_({.name = "mlp.linear_fc1",
            .inputs = shape.hidden,
            .outputs = shape.ffn_hidden,
            .bias = shape.bias,
            .weight_number = fc1_weight_number,
            .bias_number = fc1_bias_number},
           made_in),
      fc2_({.name = "mlp.linear_fc2",
            .inputs = shape.ffn_hidden,
            .outputs = shape.hidden,
            .bias = shape.bias,
            .weight_number = fc2_weight_number,
            .bias_number = fc2_bias_number},
           made_in),
      parameters_{norm_.weight(), norm_.bias()} {
  fc1_.append_to(parameters_);
  fc2_.append_to(parameters_);
}

Buffer Mlp::forward(LayerContext& context, const TensorView& input, SavedActivations& saved) {
  Buffer normed = norm_.forward(context, input, saved);
  // Where nothing is dropped in between, the last product adds the input.
  const bool adds_input = fc2_.adds_residual() && !drops(context, shape_.hidden_dropout);
  Buffer contracted = checkpoint(
      context, RecomputeModule::mlp, saved, "mlp", [&](LayerContext& run, SavedActivations& kept) {
        return feed_forward(run, normed.view(), adds_input ? input : TensorView{}, kept);
      });
  norm_.keep_or_discard(context, input, std::move(normed), saved);
  if (adds_input) return contracted;
  const Buffer branch = dropout(context, std::move(contracted), shape_.hidden_dropout, saved,
                                "mlp.dropout", hidden_dropout_stream(tensor_));
  Buffer output = make_buffer(context, input.dtype, input.shape, "output");
  add(context.stream, output.view(), input, branch.view(), op_label(context, "mlp residual"));
  return output;
}

Buffer Mlp::feed_forward(LayerContext& context, const TensorView& normed,
                         const TensorView& residual, SavedActivations& saved) {
  Buffer expanded = fc1_.forward(context, normed);
  Buffer activated = make_buffer(context, normed.dtype, expanded.view().shape, "mlp.activation");
  gelu_forward(context.stream, activated.view(), expanded.view(),
               op_label(context, "mlp.activation"));
  Buffer contracted = fc2_.forward(context, activated.view(), residual);
  keep(context, saved, "mlp.linear_fc1.output", std::move(expanded));
  keep(context, saved, "mlp.activation.output", std::move(activated));
  return contracted;
}

Buffer Mlp::backward(LayerContext& context, const TensorView& grad_output,
                     SavedActivations& saved) {
  Stream& stream = context.stream;
  const DType dtype = grad_output.dtype;
  Buffer dropped_grad =
      dropout_grad(context, grad_output, shape_.hidden_dropout, saved, "mlp.dropout");
  const TensorView grad = dropped_grad.valid() ? dropped_grad.view() : grad_output;
  norm_.recompute_output(context, saved);
  recompute(context, saved, "mlp", [&](LayerContext& again) {
    const Buffer contracted = feed_forward(again, norm_.output(saved), {}, saved);
  });
  const Buffer grad_activated = fc2_.backward(context, grad, saved.at("mlp.activation.output"));
  const TensorView expanded = saved.at("mlp.linear_fc1.output");
  Buffer grad_expanded = make_buffer(context, dtype, expanded.shape, "mlp.activation");
  gelu_backward(stream, grad_expanded.view(), grad_activated.view(), expanded,
                op_label(context, "mlp.activation backward"));
  const Buffer grad_normed = fc1_.backward(context, grad_expanded.view(), norm_.output(saved));
  keep_for_wgrads(context, dropped_grad);
  keep_for_wgrads(context, grad_expanded);
  return norm_.backward(context, grad_normed.view(), grad_output, saved);
}

}  // namespace cgconform::workloads
