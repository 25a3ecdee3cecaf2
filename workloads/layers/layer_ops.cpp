#include "workloads/layers/layer_ops.hpp"

#include <utility>

#include "workloads/faults/fault_switches.hpp"
#include "workloads/layers/bias_gradients.hpp"
#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/ops/dropout.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/ops/layer_norm.hpp"

namespace cgconform::workloads {

namespace {

void add_wgrads(LayerContext& context, const TensorView& grad_output, const TensorView& x,
                const TensorView& weight_grad, const TensorView& grad_of_bias,
                const std::string& label) {
  const auto add = [&](Stream& stream) {
    gemm_accumulate(stream, weight_grad, grad_output, true, x, false, label);
  };
  if (context.wgrad_branch != nullptr) {
    context.wgrad_branch->run(add);
  } else {
    add(context.stream);
  }
  if (grad_of_bias.valid()) add_bias_gradient(context, grad_of_bias, grad_output, label);
}

}  // namespace

Buffer make_buffer(LayerContext& context, DType dtype, const Shape& shape, std::string_view name) {
  return Buffer(context.allocator, context.stream, context.pool, dtype, shape,
                op_label(context, name));
}

std::string op_label(const LayerContext& context, std::string_view name) {
  std::string label;
  label.reserve(context.label.size() + 1 + name.size());
  label += context.label;
  label += ' ';
  label += name;
  return label;
}

void keep(const LayerContext& context, SavedActivations& saved, std::string name, Buffer buffer) {
  if (context.training) saved.keep(std::move(name), std::move(buffer));
}

Buffer linear_forward(LayerContext& context, const TensorView& x, const Parameter& weight,
                      const Parameter* bias, std::string_view name, const TensorView& residual) {
  Buffer y = make_buffer(context, x.dtype, {x.shape[0], weight.weight.shape[0]}, name);
  const std::string label = op_label(context, name);
  if (bias != nullptr) {
    gemm_bias(context.stream, y.view(), x, false, weight.weight, true, bias->weight, label,
              residual);
  } else {
    gemm(context.stream, y.view(), x, false, weight.weight, true, label);
  }
  return y;
}

Buffer linear_backward(LayerContext& context, const TensorView& grad_output, const TensorView& x,
                       const Parameter& weight, const Parameter* bias, std::string_view name) {
  const std::string label = op_label(context, name) + " backward";
  Buffer grad_x = make_buffer(context, x.dtype, x.shape, name);
  const TensorView weight_grad = weight.main_grad;
  const TensorView grad_of_bias = bias == nullptr ? TensorView{} : bias->main_grad;
  // A branch begins before what runs beside it.
  const bool beside = context.wgrad_branch != nullptr;
  const auto add = [&] { add_wgrads(context, grad_output, x, weight_grad, grad_of_bias, label); };
  if (beside) add();
  gemm(context.stream, grad_x.view(), grad_output, false, weight.weight, false, label);
  if (context.delayed == nullptr) {
    if (!beside) add();
    return grad_x;
  }
  context.delayed->leave(
      {std::string(name), grad_output, x, [=, of = std::string(name)](LayerContext& later) {
         add_wgrads(later, grad_output, x, weight_grad, grad_of_bias,
                    op_label(later, of) + " weight backward");
       }});
  return grad_x;
}

Buffer norm_forward(LayerContext& context, const TensorView& x, const Parameter& weight,
                    const Parameter& bias, SavedActivations& saved, const std::string& name) {
  Buffer output = make_buffer(context, x.dtype, x.shape, name);
  Buffer normalised = make_buffer(context, x.dtype, x.shape, name + ".normalised");
  Buffer deviation =
      make_buffer(context, arithmetic_type(x.dtype), {x.shape[0]}, name + ".reciprocal_deviation");
  layer_norm_forward(context.stream, output.view(), normalised.view(), deviation.view(), x,
                     weight.weight, bias.weight, op_label(context, name));
  keep(context, saved, name + ".normalised", std::move(normalised));
  keep(context, saved, name + ".reciprocal_deviation", std::move(deviation));
  return output;
}

Buffer norm_backward(LayerContext& context, const TensorView& grad_output, const Parameter& weight,
                     const Parameter& bias, const SavedActivations& saved, const std::string& name,
                     const TensorView& residual) {
  Buffer grad_x = make_buffer(context, grad_output.dtype, grad_output.shape, name);
  layer_norm_backward(context.stream, grad_x.view(), weight.main_grad, bias.main_grad, grad_output,
                      saved.at(name + ".normalised"), saved.at(name + ".reciprocal_deviation"),
                      weight.weight, op_label(context, name) + " backward", residual);
  return grad_x;
}

Buffer dropout(LayerContext& context, Buffer x, float probability, SavedActivations& saved,
               const std::string& name, RngStream from) {
  if (!drops(context, probability)) return x;
  const TensorView& input = x.view();
  Buffer output = make_buffer(context, input.dtype, input.shape, name);
  Buffer mask = make_buffer(context, DType::uint8, input.shape, name + ".mask");
  const TensorView state = context.rng.at(from);
  const std::string label = op_label(context, name);
  if (context.faults.is_on(Fault::f07a_offset_by_value)) {
    const auto offset = static_cast<std::uint64_t>(context.step) * 1000 +
                        static_cast<std::uint64_t>(context.microbatch);
    dropout_by_value(context.stream, output.view(), mask.view(), state, input, probability, offset,
                     label);
  } else {
    const std::uint32_t advance = context.faults.is_on(Fault::f07b_offset_not_advanced) ? 0 : 1;
    dropout_forward(context.stream, output.view(), mask.view(), state, input, probability, advance,
                    label);
  }
  if (context.tap != nullptr) context.tap->tap("dropout_mask:" + name, mask.view());
  keep(context, saved, name + ".mask", std::move(mask));
  return output;
}

Buffer dropout_grad(LayerContext& context, const TensorView& grad, float probability,
                    const SavedActivations& saved, const std::string& name) {
  if (probability == 0.0F) return {};
  Buffer grad_x = make_buffer(context, grad.dtype, grad.shape, name);
  dropout_backward(context.stream, grad_x.view(), grad, saved.at(name + ".mask"), probability,
                   op_label(context, name) + " backward");
  return grad_x;
}

}  // namespace cgconform::workloads
