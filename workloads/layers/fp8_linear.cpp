#include "workloads/layers/fp8_linear.hpp"

#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

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

void Fp8Linear::scale_now(LayerContext& context, const std::vector<TensorView>& parts,
                          const Fp8Scaling& scaling, const std::string& label) const {
  if (parts.size() == 1) {
    fp8_current_scale(context.stream, scaling.scale, scaling.descale, parts.front(), {},
                      scaling.format, label);
    return;
  }
  context.stream.fill(scaling.amax, 0, label);
  for (const TensorView& part : parts) fp8_amax(context.stream, scaling.amax, part, label);
  fp8_scale_of_amax(context.stream, scaling.scale, scaling.descale, scaling.amax, scaling.format,
                    label);
}

std::vector<Fp8Linear::Quantised> Fp8Linear::quantise(LayerContext& context,
                                                      const std::vector<TensorView>& parts,
                                                      Fp8Operand operand, bool records,
                                                      const std::string& name) const {
  std::vector<Quantised> all;
  if (parts.empty()) return all;
  const Fp8Scaling scaling = state_->scaling(number_, operand);
  const std::string label = op_label(context, name) + " quantise";
  if (!state_->delayed()) scale_now(context, parts, scaling, label);
  const TensorView amax = state_->delayed() && records ? scaling.amax : TensorView{};
  for (const TensorView& x : parts) {
    const Quantised& made = all.emplace_back(
        Quantised{make_buffer(context, DType::uint8, x.shape, name),
                  make_buffer(context, DType::uint8, {x.shape[1], x.shape[0]}, name)});
    fp8_quantise(context.stream, {made.rows.view(), made.columns.view()}, amax, x, scaling.scale,
                 scaling.format, label);
  }
  return all;
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
  Buffer y = make_buffer(context, x.dtype, {x.shape[0], weight_.weight.shape[0]}, name);
  forward(context, std::array{LinearRows{x, y.view()}}, name);
  return y;
}

Buffer Fp8Linear::backward(LayerContext& context, const TensorView& grad_output,
                           const TensorView& x, const std::string& name) const {
  Buffer grad_x = make_buffer(context, x.dtype, x.shape, name);
  backward(context, std::array{LinearGradRows{grad_output, x, grad_x.view()}}, name);
  return grad_x;
}

void Fp8Linear::forward(LayerContext& context, std::span<const LinearRows> parts,
                        const std::string& name) const {
  // The cache of a forward that runs again is that of the forward.
  if (!context.recomputing) refresh_weight(context, name);
  if (context.recomputing && context.faults.is_on(Fault::f12c_scales_updated_in_recompute)) {
    state_->update_again(context.stream, number_);
  }
  std::vector<TensorView> inputs;
  for (const LinearRows& part : parts) inputs.push_back(part.x);
  const std::vector<Quantised> quantised =
      quantise(context, inputs, Fp8Operand::input, records_magnitudes(context), name);
  const Fp8Scaling of_input = state_->scaling(number_, Fp8Operand::input);
  const Fp8Scaling of_weight = state_->scaling(number_, Fp8Operand::weight);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    fp8_gemm(context.stream, parts[part].y, quantised[part].rows.view(), cached_.rows,
             of_input.descale, of_weight.descale, of_input.format, of_weight.format,
             op_label(context, name));
  }
}

void Fp8Linear::backward(LayerContext& context, std::span<const LinearGradRows> parts,
                         const std::string& name) const {
  std::vector<TensorView> inputs;
  std::vector<TensorView> gradients;
  for (const LinearGradRows& part : parts) {
    inputs.push_back(part.x);
    gradients.push_back(part.grad_y);
  }
  std::vector<Quantised> input = quantise(context, inputs, Fp8Operand::input, false, name);
  std::vector<Quantised> gradient =
      quantise(context, gradients, Fp8Operand::grad_output, true, name);
  const Fp8Scaling of_weight = state_->scaling(number_, Fp8Operand::weight);
  const Fp8Scaling of_gradient = state_->scaling(number_, Fp8Operand::grad_output);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    fp8_gemm(context.stream, parts[part].grad_x, gradient[part].rows.view(), cached_.columns,
             of_gradient.descale, of_weight.descale, of_gradient.format, of_weight.format,
             op_label(context, name) + " backward");
    const std::string of_part = parts.size() == 1 ? name : fmt::format("{} part {}", name, part);
    add_or_leave_wgrad(context, gradient[part], input[part], of_part);
  }
}

void Fp8Linear::add_or_leave_wgrad(LayerContext& context, Quantised& gradient, Quantised& input,
                                   const std::string& name) const {
  const Fp8Scaling of_input = state_->scaling(number_, Fp8Operand::input);
  const Fp8Scaling of_gradient = state_->scaling(number_, Fp8Operand::grad_output);
  const auto add_wgrad = [=, weight_grad = weight_.main_grad, columns = gradient.columns.view(),
                          input_columns = input.columns.view()](Stream& stream,
                                                                const std::string& of) {
    fp8_gemm_accumulate(stream, weight_grad, columns, input_columns, of_gradient.descale,
                        of_input.descale, of_gradient.format, of_input.format, of);
  };
  if (context.delayed == nullptr) {
    add_wgrad(context.stream, op_label(context, name) + " backward");
    return;
  }
  context.delayed->leave(
      {name, gradient.columns.view(), input.columns.view(), [add_wgrad, name](LayerContext& later) {
         add_wgrad(later.stream, op_label(later, name) + " weight backward");
       }});
  keep_for_wgrads(context, gradient.columns);
  keep_for_wgrads(context, input.columns);
}

}  // namespace cgconform::workloads
