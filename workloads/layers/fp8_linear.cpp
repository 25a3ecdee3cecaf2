#include "workloads/layers/fp8_linear.hpp"

#include <utility>

#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"

namespace cgconform::workloads {

namespace {

/// A forward that runs again, or one of validation, leaves the magnitudes of the step alone.
bool records_magnitudes(const LayerContext& context) {
  return context.training && !context.recomputing;
}

}  // namespace

Fp8Linear::Fp8Linear(Fp8State& state, const Parameter& weight)
    : state_(&state), number_(state.add_linear()), weight_(weight) {
  const Shape& shape = weight.weight.shape;
  cached_ = {state.keep_bytes(shape), state.keep_bytes({shape[1], shape[0]})};
}

Fp8Linear::Quantised Fp8Linear::quantise(LayerContext& context, const TensorView& x,
                                         Fp8Operand operand, bool records,
                                         const std::string& name) const {
  const Fp8Scaling scaling = state_->scaling(number_, operand);
  const std::string label = op_label(context, name) + " quantise";
  Quantised quantised{make_buffer(context, DType::uint8, x.shape, name),
                      make_buffer(context, DType::uint8, {x.shape[1], x.shape[0]}, name)};
  if (!state_->delayed()) {
    fp8_current_scale(context.stream, scaling.scale, scaling.descale, x, {}, scaling.format, label);
  }
  const TensorView amax = state_->delayed() && records ? scaling.amax : TensorView{};
  fp8_quantise(context.stream, {quantised.rows.view(), quantised.columns.view()}, amax, x,
               scaling.scale, scaling.format, label);
  return quantised;
}

void Fp8Linear::refresh_weight(LayerContext& context, const std::string& name) const {
  const Fp8Scaling scaling = state_->scaling(number_, Fp8Operand::weight);
  const std::string label = op_label(context, name) + " quantise weight";
  const TensorView& cached = state_->weights_cached();
  if (!state_->delayed()) {
    fp8_current_scale(context.stream, scaling.scale, scaling.descale, weight_.weight, cached,
                      scaling.format, label);
  }
  const bool records = state_->delayed() && records_magnitudes(context);
  fp8_quantise_weight(context.stream, cached_, records ? scaling.amax : TensorView{},
                      weight_.weight, scaling.scale, cached,
                      context.training ? state_->refreshes() : TensorView{}, scaling.format, label);
}

Buffer Fp8Linear::forward(LayerContext& context, const TensorView& x,
                          const std::string& name) const {
  // The cache of a forward that runs again is that of the forward.
  if (!context.recomputing) refresh_weight(context, name);
  if (context.recomputing && context.faults.is_on(Fault::f12c_scales_updated_in_recompute)) {
    state_->update_again(context.stream, number_);
  }
  const Quantised input =
      quantise(context, x, Fp8Operand::input, records_magnitudes(context), name);
  const Fp8Scaling of_input = state_->scaling(number_, Fp8Operand::input);
  const Fp8Scaling of_weight = state_->scaling(number_, Fp8Operand::weight);
  Buffer y = make_buffer(context, x.dtype, {x.shape[0], weight_.weight.shape[0]}, name);
  fp8_gemm(context.stream, y.view(), input.rows.view(), cached_.rows, of_input.descale,
           of_weight.descale, of_input.format, of_weight.format, op_label(context, name));
  return y;
}

Buffer Fp8Linear::backward(LayerContext& context, const TensorView& grad_output,
                           const TensorView& x, const std::string& name) const {
  const std::string label = op_label(context, name) + " backward";
  Quantised input = quantise(context, x, Fp8Operand::input, false, name);
  Quantised gradient = quantise(context, grad_output, Fp8Operand::grad_output, true, name);
  const Fp8Scaling of_input = state_->scaling(number_, Fp8Operand::input);
  const Fp8Scaling of_weight = state_->scaling(number_, Fp8Operand::weight);
  const Fp8Scaling of_gradient = state_->scaling(number_, Fp8Operand::grad_output);
  Buffer grad_x = make_buffer(context, x.dtype, x.shape, name);
  fp8_gemm(context.stream, grad_x.view(), gradient.rows.view(), cached_.columns,
           of_gradient.descale, of_weight.descale, of_gradient.format, of_weight.format, label);
  const auto add_wgrad = [=, weight_grad = weight_.main_grad, columns = gradient.columns.view(),
                          input_columns = input.columns.view()](Stream& stream,
                                                                const std::string& of) {
    fp8_gemm_accumulate(stream, weight_grad, columns, input_columns, of_gradient.descale,
                        of_input.descale, of_gradient.format, of_input.format, of);
  };
  if (context.delayed == nullptr) {
    add_wgrad(context.stream, label);
    return grad_x;
  }
  context.delayed->leave(
      {name, gradient.columns.view(), input.columns.view(), [add_wgrad, name](LayerContext& later) {
         add_wgrad(later.stream, op_label(later, name) + " weight backward");
       }});
  keep_for_wgrads(context, gradient.columns);
  keep_for_wgrads(context, input.columns);
  return grad_x;
}

}  // namespace cgconform::workloads
