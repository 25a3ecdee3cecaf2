#include "workloads/layers/mamba_mixer.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

namespace {

constexpr ParameterInit step_bias_init{-1.0F, 0.3F};
constexpr ParameterInit decay_log_init{0.0F, 0.5F};
constexpr ParameterInit skip_init{1.0F, 0.1F};

/// Numbers of the parameters after the module's first.
enum Number : std::uint64_t {
  norm_numbers,
  gate_weight_number = norm_numbers + 2,
  values_weight_number,
  step_weight_number,
  convolution_weight_number,
  convolution_bias_number,
  step_bias_number,
  decay_log_number,
  skip_number,
  output_weight_number,
};

/// A projection without a bias.
DuplicatedLinear projection(const char* name, std::int64_t inputs, std::int64_t outputs,
                            Number number, const ModuleParameters& made_in) {
  return DuplicatedLinear(
      {.name = name, .inputs = inputs, .outputs = outputs, .bias = false, .weight_number = number},
      made_in);
}

std::int64_t channels_of(const MambaSizes& sizes) {
  return sizes.inner() + 2 * std::int64_t{sizes.states};
}

}  // namespace

MambaSizes::MambaSizes(const TransformerShape& shape) {
  constexpr std::int32_t expansion = 2;
  constexpr std::int32_t fewest_states = 4;
  constexpr std::int32_t most_states = 64;
  constexpr std::int32_t longest_chunk = 64;
  heads = expansion * shape.heads;
  head_size = shape.hidden / shape.heads;
  states = std::clamp(shape.hidden / 4, fewest_states, most_states);
  taps = 4;
  // Two chunks at the least, so that a state is carried in every model but the shortest.
  chunk = std::min((shape.length + 1) / 2, longest_chunk);
}

MambaMixer::MambaMixer(std::string layer_name, const TransformerShape& shape,
                       const ModuleParameters& made_in)
    : name_(std::move(layer_name)),
      shape_(shape),
      sizes_(shape),
      norm_("norm", shape.hidden, made_in, norm_numbers),
      gate_(projection("mixer.in_proj.gate", shape.hidden, sizes_.inner(), gate_weight_number,
                       made_in)),
      values_(projection("mixer.in_proj.values", shape.hidden, channels_of(sizes_),
                         values_weight_number, made_in)),
      step_(projection("mixer.in_proj.step", shape.hidden, sizes_.heads, step_weight_number,
                       made_in)),
      output_(projection("mixer.out_proj", sizes_.inner(), shape.hidden, output_weight_number,
                         made_in)) {
  const std::int64_t channels = channels_of(sizes_);
  const std::int64_t heads = sizes_.heads;
  const auto made = [&](const char* parameter_name, const Shape& extents, const ParameterInit& init,
                        Number number) {
    return made_in.store.add(parameter_name, extents, init, made_in.first_number + number);
  };
  convolution_weight_ = made("mixer.conv1d.weight", {sizes_.taps, channels},
                             weight_init(sizes_.taps), convolution_weight_number);
  convolution_bias_ = made("mixer.conv1d.bias", {channels}, bias_init, convolution_bias_number);
  step_bias_ = made("mixer.dt_bias", {heads}, step_bias_init, step_bias_number);
  decay_log_ = made("mixer.A_log", {heads}, decay_log_init, decay_log_number);
  skip_ = made("mixer.D", {heads}, skip_init, skip_number);
  parameters_ = {norm_.weight(), norm_.bias()};
  for (const DuplicatedLinear* linear : {&gate_, &values_, &step_}) linear->append_to(parameters_);
  parameters_.insert(parameters_.end(),
                     {convolution_weight_, convolution_bias_, step_bias_, decay_log_, skip_});
  output_.append_to(parameters_);
}

ScanParams MambaMixer::scan_params(std::int32_t chunk) const {
  ScanParams params;
  params.sequences = shape_.sequences;
  params.length = shape_.length;
  params.heads = sizes_.heads;
  params.head_size = sizes_.head_size;
  params.states = sizes_.states;
  params.first = chunk * sizes_.chunk;
  params.count = std::min(sizes_.chunk, shape_.length - params.first);
  return params;
}

Shape MambaMixer::state_shape(std::int64_t count) const {
  return {count * shape_.sequences, sizes_.heads, sizes_.head_size, sizes_.states};
}

TensorView MambaMixer::state_at(const TensorView& states, std::int32_t chunk) const {
  const Shape one = state_shape(1);
  return elements_of(states, chunk * one.elements(), one);
}

ScanInputs MambaMixer::scan_inputs(const TensorView& convolved, const TensorView& step) const {
  return {convolved, step, step_bias_.weight, decay_log_.weight, skip_.weight};
}

Buffer MambaMixer::forward(LayerContext& context, const TensorView& input,
                           SavedActivations& saved) {
  Stream& stream = context.stream;
  const DType dtype = input.dtype;
  Buffer normed = norm_.forward(context, input, saved);
  Buffer gate = gate_.forward(context, normed.view());
  Buffer values = values_.forward(context, normed.view());
  Buffer step = step_.forward(context, normed.view());
  norm_.keep_or_discard(context, input, std::move(normed), saved);

  Buffer convolved = make_buffer(context, dtype, values.view().shape, "mixer.conv1d");
  causal_convolution_forward(stream, convolved.view(), values.view(), convolution_weight_.weight,
                             convolution_bias_.weight, shape_.length,
                             op_label(context, "mixer.conv1d"));
  keep(context, saved, "mixer.values", std::move(values));
  Buffer scanned = scan(context, scan_inputs(convolved.view(), step.view()), saved);
  keep(context, saved, "mixer.step", std::move(step));
  keep(context, saved, "mixer.conv1d.output", std::move(convolved));

  Buffer gated = make_buffer(context, dtype, scanned.view().shape, "mixer.gated");
  gate_forward(stream, gated.view(), scanned.view(), gate.view(), op_label(context, "mixer.gated"));
  keep(context, saved, "mixer.gate", std::move(gate));
  keep(context, saved, "mixer.scanned", std::move(scanned));
  Buffer projected = output_.forward(context, gated.view());
  keep(context, saved, "mixer.gated", std::move(gated));
  const Buffer branch =
      dropout(context, std::move(projected), shape_.hidden_dropout, saved, "mixer.dropout");
  Buffer output = make_buffer(context, dtype, input.shape, "output");
  add(stream, output.view(), input, branch.view(), op_label(context, "mamba residual"));
  return output;
}

Buffer MambaMixer::scan(LayerContext& context, const ScanInputs& inputs,
                        SavedActivations& saved) const {
  Stream& stream = context.stream;
  const DType dtype = inputs.step.dtype;
  Buffer scanned = make_buffer(context, dtype, {shape_.tokens(), sizes_.inner()}, "mixer.scan");
  Buffer states =
      make_buffer(context, arithmetic_type(dtype), state_shape(chunks() + 1), "mixer.scan.states");
  // Chunks add their rows to those of the chunks before.
  stream.fill(scanned.view(), 0, op_label(context, "mixer.scan rows"));
  const TensorView start = state_at(states.view(), 0);
  const bool stale = context.faults.is_on(Fault::f02f_scan_state_zeroed_outside);
  if (!stale) stream.fill(start, 0, op_label(context, "mixer.scan start"));
  if (context.tap != nullptr) context.tap->tap("scan_state:start", start);
  for_each_chunk([&](std::int32_t chunk, const ScanParams& params) {
    selective_scan_forward(stream, scanned.view(), state_at(states.view(), chunk + 1),
                           state_at(states.view(), chunk), inputs, params,
                           op_label(context, fmt::format("mixer.scan chunk {}", chunk)));
  });
  const TensorView last = state_at(states.view(), chunks());
  if (context.tap != nullptr) context.tap->tap("scan_state:end", last);
  if (stale) stream.copy(start, last, op_label(context, "mixer.scan start"));
  keep(context, saved, "mixer.scan.states", std::move(states));
  return scanned;
}

Buffer MambaMixer::backward(LayerContext& context, const TensorView& grad_output,
                            SavedActivations& saved) {
  Stream& stream = context.stream;
  const DType dtype = grad_output.dtype;
  const Buffer dropped_grad =
      dropout_grad(context, grad_output, shape_.hidden_dropout, saved, "mixer.dropout");
  const TensorView& grad = dropped_grad.valid() ? dropped_grad.view() : grad_output;
  norm_.recompute_output(context, saved);
  const Buffer grad_gated = output_.backward(context, grad, saved.at("mixer.gated"));
  const TensorView gate = saved.at("mixer.gate");
  const Buffer grad_scanned = make_buffer(context, dtype, gate.shape, "mixer.scan");
  const Buffer grad_gate = make_buffer(context, dtype, gate.shape, "mixer.gate");
  gate_backward(stream, grad_scanned.view(), grad_gate.view(), grad_gated.view(),
                saved.at("mixer.scanned"), gate, op_label(context, "mixer.gated backward"));
  const auto [grad_convolved, grad_step] = scan_backward(context, grad_scanned.view(), saved);

  const TensorView values = saved.at("mixer.values");
  const Buffer grad_values = make_buffer(context, dtype, values.shape, "mixer.values");
  const Buffer sums =
      make_buffer(context, arithmetic_type(dtype), values.shape, "mixer.conv1d.sums");
  causal_convolution_backward(
      stream,
      {grad_values.view(), convolution_weight_.main_grad, convolution_bias_.main_grad, sums.view()},
      grad_convolved.view(), values, convolution_weight_.weight, convolution_bias_.weight,
      shape_.length, op_label(context, "mixer.conv1d backward"));

  const TensorView normed = norm_.output(saved);
  const Buffer grad_normed = gate_.backward(context, grad_gate.view(), normed);
  const Buffer through_values = values_.backward(context, grad_values.view(), normed);
  const Buffer through_step = step_.backward(context, grad_step.view(), normed);
  const std::string label = op_label(context, "mixer.in_proj backward");
  accumulate(stream, grad_normed.view(), through_values.view(), label);
  accumulate(stream, grad_normed.view(), through_step.view(), label);
  return norm_.backward(context, grad_normed.view(), grad_output, saved);
}

std::pair<Buffer, Buffer> MambaMixer::scan_backward(LayerContext& context,
                                                    const TensorView& grad_scanned,
                                                    const SavedActivations& saved) const {
  Stream& stream = context.stream;
  const TensorView convolved = saved.at("mixer.conv1d.output");
  const TensorView step = saved.at("mixer.step");
  const TensorView states = saved.at("mixer.scan.states");
  const DType wide = arithmetic_type(step.dtype);
  Buffer grad_convolved = make_buffer(context, step.dtype, convolved.shape, "mixer.conv1d");
  Buffer grad_step = make_buffer(context, step.dtype, step.shape, "mixer.step");
  const Buffer grad_state = make_buffer(context, wide, state_shape(1), "mixer.scan.state");
  for (const Buffer* rows : {&grad_convolved, &grad_step}) {
    stream.fill(rows->view(), 0, op_label(context, "mixer.scan backward rows"));
  }
  // Nothing reads the state after the last chunk.
  stream.fill(grad_state.view(), 0, op_label(context, "mixer.scan backward"));
  for (std::int32_t chunk = chunks() - 1; chunk >= 0; --chunk) {
    const ScanParams params = scan_params(chunk);
    const Shape in_chunk{params.rows(), sizes_.heads, sizes_.head_size, sizes_.states};
    const Buffer inside = make_buffer(context, wide, in_chunk, "mixer.scan.states");
    const Buffer grad_inside = make_buffer(context, wide, in_chunk, "mixer.scan.grad_states");
    const Buffer sums = make_buffer(context, wide, {3, params.rows(), sizes_.heads}, "mixer.sums");
    selective_scan_backward(stream,
                            {grad_convolved.view(), grad_step.view(), step_bias_.main_grad,
                             decay_log_.main_grad, skip_.main_grad, grad_state.view()},
                            {inside.view(), grad_inside.view(), sums.view()}, grad_scanned,
                            state_at(states, chunk), scan_inputs(convolved, step), params,
                            op_label(context, fmt::format("mixer.scan chunk {} backward", chunk)));
  }
  return {std::move(grad_convolved), std::move(grad_step)};
}

}  // namespace cgconform::workloads
