#include "workloads/layers/moe_postprocess.hpp"

#include <utility>

#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/expert_rows.hpp"

namespace cgconform::workloads {

namespace {

constexpr const char* input_name = "postprocess.input";
constexpr const char* dropout_name = "moe.dropout";

}  // namespace

MoePostprocess::MoePostprocess(std::string layer_name, const TransformerShape& shape,
                               const MoeShape& moe, DType dtype, RngStream dropout)
    : name_(std::move(layer_name)),
      shape_(shape),
      moe_(moe),
      layouts_(moe_layouts(shape, moe, dtype)),
      dropout_(dropout) {}

Buffer MoePostprocess::forward(LayerContext& context, const TensorView& input,
                               SavedActivations& saved) {
  Stream& stream = context.stream;
  const TensorView residual = layouts_.worked.part(input, "residual");
  Buffer combined = make_buffer(context, residual.dtype, residual.shape, "moe.combined");
  combine_rows(stream, combined.view(), layouts_.worked.part(input, "rows"),
               layouts_.worked.part(input, "slots"), layouts_.worked.part(input, "probabilities"),
               op_label(context, "moe.combined"));
  if (moe_.shared_hidden > 0) {
    accumulate(stream, combined.view(), layouts_.worked.part(input, "shared"),
               op_label(context, "moe.shared"));
  }
  const Buffer branch =
      dropout(context, std::move(combined), shape_.hidden_dropout, saved, dropout_name, dropout_);
  Buffer output = make_buffer(context, residual.dtype, residual.shape, "output");
  add(stream, output.view(), residual, branch.view(), op_label(context, "moe residual"));
  if (context.training) saved.borrow(input_name, input);
  return output;
}

Buffer MoePostprocess::backward(LayerContext& context, const TensorView& grad_output,
                                SavedActivations& saved) {
  Stream& stream = context.stream;
  const TensorView input = saved.at(input_name);
  const Buffer dropped =
      dropout_grad(context, grad_output, shape_.hidden_dropout, saved, dropout_name);
  const TensorView& branch = dropped.valid() ? dropped.view() : grad_output;
  Buffer grad = make_bundle(context, layouts_.placed_grad, "moe_postprocess backward");
  const auto part = [&](std::string_view name) {
    return layouts_.placed_grad.part(grad.view(), name);
  };
  stream.copy(part("residual"), grad_output, op_label(context, "moe residual backward"));
  if (moe_.shared_hidden > 0) {
    stream.copy(part("shared"), branch, op_label(context, "moe.shared backward"));
  }
  combine_weights_backward(
      stream, part("probabilities"), branch, layouts_.worked.part(input, "rows"),
      layouts_.worked.part(input, "slots"), op_label(context, "moe.combined weights backward"));
  dispatch_rows(stream, part("rows"), branch, layouts_.worked.part(input, "sources"),
                layouts_.worked.part(input, "probabilities"), moe_.top_k,
                op_label(context, "moe.combined backward"));
  return grad;
}

}  // namespace cgconform::workloads
