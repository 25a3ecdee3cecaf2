#include "workloads/layers/mamba_mixer.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/shared_rows.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

namespace {

constexpr const char* borders_name = "mixer.cu_seqlens";

constexpr ParameterInit step_bias_init{-1.0F, 0.3F};
constexpr ParameterInit decay_log_init{0.0F, 0.5F};
constexpr ParameterInit skip_init{1.0F, 0.1F};

/// Numbers of the parameters after the module's first.
enum Number : std::uint64_t {
  norm_numbers,
  gate_number = norm_numbers + 2,
  step_number,
  step_bias_number,
  decay_log_number,
  skip_number,
  output_number,
  values_numbers,
  state_weights_numbers = values_numbers + 3,
};

/// Of a part that is convolved, after its first.
enum ConvolvedNumber : std::uint64_t {
  projection_number,
  convolution_weight_number,
  convolution_bias_number,
};

/// A projection without a bias.
LinearDeclaration projection(std::string name, std::int64_t inputs, std::int64_t outputs,
                             std::uint64_t number) {
  return {.name = std::move(name),
          .inputs = inputs,
          .outputs = outputs,
          .bias = false,
          .weight_number = number};
}

/// What a rank holds of a parameter that is shared out along `axis`, or of one that is not.
ParameterShard shard_of(const TensorParallel& tensor, int axis, OutputShare share) {
  if (share == OutputShare::whole) return {};
  return {.axis = axis, .part = tensor.rank(), .parts = tensor.size()};
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

MambaMixer::Convolved::Convolved(const char* part, std::int64_t outputs, OutputShare share,
                                 std::uint64_t number, const TransformerShape& shape,
                                 const MambaSizes& sizes, const ModuleParameters& made_in)
    : name(fmt::format("mixer.conv1d.{}", part)),
      projection(workloads::projection(fmt::format("mixer.in_proj.{}", part), shape.hidden, outputs,
                                       number + projection_number),
                 made_in, share) {
  const std::uint64_t first = made_in.first_number + number;
  weight = made_in.store.add(name + ".weight", {sizes.taps, outputs}, weight_init(sizes.taps),
                             first + convolution_weight_number, shard_of(made_in.tensor, 1, share));
  bias = made_in.store.add(name + ".bias", {outputs}, bias_init, first + convolution_bias_number,
                           shard_of(made_in.tensor, 0, share));
  weight.partial_gradient = share == OutputShare::whole && made_in.tensor.splits();
  bias.partial_gradient = weight.partial_gradient;
}

void MambaMixer::Convolved::append_to(std::vector<Parameter>& parameters) const {
  projection.append_to(parameters);
  parameters.insert(parameters.end(), {weight, bias});
}

MambaMixer::MambaMixer(std::string layer_name, const TransformerShape& shape,
                       const ModuleParameters& made_in)
    : name_(std::move(layer_name)),
      shape_(shape),
      tensor_(made_in.tensor),
      sizes_(shape),
      own_heads_(sizes_.heads / made_in.tensor.size()),
      norm_("norm", shape.hidden, made_in, norm_numbers),
      gate_(projection("mixer.in_proj.gate", shape.hidden, sizes_.inner(), gate_number), made_in,
            OutputShare::equal),
      values_("values", sizes_.inner(), OutputShare::equal, values_numbers, shape, sizes_, made_in),
      state_weights_("states", 2 * std::int64_t{sizes_.states}, OutputShare::whole,
                     state_weights_numbers, shape, sizes_, made_in),
      step_(projection("mixer.in_proj.step", shape.hidden, sizes_.heads, step_number), made_in,
            OutputShare::equal),
      output_(projection("mixer.out_proj", sizes_.inner(), shape.hidden, output_number), made_in) {
  const auto of_heads = [&](const char* parameter_name, const ParameterInit& init, Number number) {
    return made_in.store.add(parameter_name, {sizes_.heads}, init, made_in.first_number + number,
                             shard_of(made_in.tensor, 0, OutputShare::equal));
  };
  step_bias_ = of_heads("mixer.dt_bias", step_bias_init, step_bias_number);
  decay_log_ = of_heads("mixer.A_log", decay_log_init, decay_log_number);
  skip_ = of_heads("mixer.D", skip_init, skip_number);
  // In the order in which they were added to the store.
  parameters_ = {norm_.weight(), norm_.bias()};
  gate_.append_to(parameters_);
  values_.append_to(parameters_);
  state_weights_.append_to(parameters_);
  step_.append_to(parameters_);
  output_.append_to(parameters_);
  parameters_.insert(parameters_.end(), {step_bias_, decay_log_, skip_});
}

ScanParams MambaMixer::scan_params(std::int32_t sequences, std::int32_t chunk) const {
  ScanParams params;
  params.sequences = sequences;
  params.length = shape_.length;
  params.heads = own_heads_;
  params.head_size = sizes_.head_size;
  params.states = sizes_.states;
  params.first = chunk * sizes_.chunk;
  params.count = std::min(sizes_.chunk, shape_.length - params.first);
  return params;
}

Shape MambaMixer::state_shape(std::int64_t count) const {
  return {count, own_heads_, sizes_.head_size, sizes_.states};
}

TensorView MambaMixer::state_at(const TensorView& states, std::int32_t chunk) const {
  const Shape one = state_shape(states.shape[0] / (chunks() + 1));
  return elements_of(states, chunk * one.elements(), one);
}

ScanInputs MambaMixer::scan_inputs(const TensorView& cu_seqlens, const TensorView& values,
                                   const TensorView& state_weights, const TensorView& step) const {
  return {.values = values,
          .state_weights = state_weights,
          .step = step,
          .step_bias = step_bias_.weight,
          .decay_log = decay_log_.weight,
          .skip = skip_.weight,
          .cu_seqlens = cu_seqlens};
}

void MambaMixer::keep_borders(LayerContext& context, SavedActivations& saved) {
  const TensorView& borders = context.cu_seqlens;
  if (!borders.valid() || !context.training) return;
  Buffer kept = make_buffer(context, borders.dtype, borders.shape, borders_name);
  context.stream.copy(kept.view(), borders, op_label(context, borders_name));
  saved.keep(borders_name, std::move(kept));
}

TensorView MambaMixer::kept_borders(const SavedActivations& saved) {
  return saved.contains(borders_name) ? saved.at(borders_name) : TensorView{};
}

Buffer MambaMixer::forward(LayerContext& context, const TensorView& input,
                           SavedActivations& saved) {
  Stream& stream = context.stream;
  const DType dtype = input.dtype;
  Buffer normed = norm_.forward(context, input, saved);
  Buffer gathered;
  const TensorView all = gather_rows(context, tensor_, normed.view(), gathered, "mixer.in_proj");
  Buffer gate = gate_.forward(context, all);
  Buffer values = values_.projection.forward(context, all);
  Buffer state_weights = state_weights_.projection.forward(context, all);
  Buffer step = step_.forward(context, all);
  norm_.keep_or_discard(context, input, std::move(normed), saved);

  keep_borders(context, saved);
  Buffer convolved_values = convolve(context, values_, std::move(values), saved);
  Buffer convolved_weights = convolve(context, state_weights_, std::move(state_weights), saved);
  Buffer scanned = scan(context,
                        scan_inputs(context.cu_seqlens, convolved_values.view(),
                                    convolved_weights.view(), step.view()),
                        saved);
  keep(context, saved, "mixer.step", std::move(step));
  keep(context, saved, values_.name + ".output", std::move(convolved_values));
  keep(context, saved, state_weights_.name + ".output", std::move(convolved_weights));

  Buffer gated = make_buffer(context, dtype, scanned.view().shape, "mixer.gated");
  gate_forward(stream, gated.view(), scanned.view(), gate.view(), op_label(context, "mixer.gated"));
  keep(context, saved, "mixer.gate", std::move(gate));
  keep(context, saved, "mixer.scanned", std::move(scanned));
  Buffer projected = output_.forward(context, gated.view());
  keep(context, saved, "mixer.gated", std::move(gated));
  const Buffer branch = dropout(context, std::move(projected), shape_.hidden_dropout, saved,
                                "mixer.dropout", hidden_dropout_stream(tensor_));
  Buffer output = make_buffer(context, dtype, input.shape, "output");
  add(stream, output.view(), input, branch.view(), op_label(context, "mamba residual"));
  return output;
}

Buffer MambaMixer::convolve(LayerContext& context, const Convolved& part, Buffer input,
                            SavedActivations& saved) const {
  const TensorView& x = input.view();
  Buffer convolved = make_buffer(context, x.dtype, x.shape, part.name);
  causal_convolution_forward(context.stream, convolved.view(), x, part.weight.weight,
                             part.bias.weight, shape_.length, context.cu_seqlens,
                             op_label(context, part.name));
  keep(context, saved, part.name + ".input", std::move(input));
  return convolved;
}

Buffer MambaMixer::convolve_backward(LayerContext& context, const Convolved& part,
                                     const TensorView& grad_convolved,
                                     const SavedActivations& saved) const {
  const TensorView x = saved.at(part.name + ".input");
  Buffer grad_x = make_buffer(context, x.dtype, x.shape, part.name);
  const Buffer sums = make_buffer(context, arithmetic_type(x.dtype), x.shape, part.name + ".sums");
  causal_convolution_backward(
      context.stream, {grad_x.view(), part.weight.main_grad, part.bias.main_grad, sums.view()},
      grad_convolved, x, part.weight.weight, part.bias.weight, shape_.length, kept_borders(saved),
      op_label(context, part.name + " backward"));
  return grad_x;
}

Buffer MambaMixer::scan(LayerContext& context, const ScanInputs& inputs,
                        SavedActivations& saved) const {
  Stream& stream = context.stream;
  const DType dtype = inputs.step.dtype;
  const std::int32_t sequences = shape_.sequences_of(inputs.step.shape[0]);
  Buffer scanned = make_buffer(context, dtype, inputs.values.shape, "mixer.scan");
  Buffer states =
      make_buffer(context, arithmetic_type(dtype),
                  state_shape(std::int64_t{chunks() + 1} * sequences), "mixer.scan.states");
  // Chunks add their rows to those of the chunks before.
  stream.fill(scanned.view(), 0, op_label(context, "mixer.scan rows"));
  const TensorView start = state_at(states.view(), 0);
  const bool stale = context.faults.is_on(Fault::f02f_scan_state_zeroed_outside);
  if (!stale) stream.fill(start, 0, op_label(context, "mixer.scan start"));
  if (context.tap != nullptr) context.tap->tap("scan_state:start", start);
  for_each_chunk(sequences, [&](std::int32_t chunk, const ScanParams& params) {
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
  Buffer dropped_grad =
      dropout_grad(context, grad_output, shape_.hidden_dropout, saved, "mixer.dropout");
  const TensorView grad = dropped_grad.valid() ? dropped_grad.view() : grad_output;
  norm_.recompute_output(context, saved);
  const Buffer grad_gated = output_.backward(context, grad, saved.at("mixer.gated"));
  const TensorView gate = saved.at("mixer.gate");
  const Buffer grad_scanned = make_buffer(context, dtype, gate.shape, "mixer.scan");
  Buffer grad_gate = make_buffer(context, dtype, gate.shape, "mixer.gate");
  gate_backward(stream, grad_scanned.view(), grad_gate.view(), grad_gated.view(),
                saved.at("mixer.scanned"), gate, op_label(context, "mixer.gated backward"));
  ScanInputGrads grads = scan_backward(context, grad_scanned.view(), saved);
  Buffer grad_values = convolve_backward(context, values_, grads.values.view(), saved);
  Buffer grad_weights =
      convolve_backward(context, state_weights_, grads.state_weights.view(), saved);

  Buffer gathered;
  const std::string name = "mixer.in_proj backward";
  const TensorView all = gather_rows(context, tensor_, norm_.output(saved), gathered, name);
  Buffer grad_normed = gate_.backward(context, grad_gate.view(), all);
  const auto add_path = [&](const SharedInputLinear& linear, Buffer& grad_of_output) {
    const Buffer path = linear.backward(context, grad_of_output.view(), all);
    accumulate(stream, grad_normed.view(), path.view(), op_label(context, name));
    keep_for_wgrads(context, grad_of_output);
  };
  add_path(values_.projection, grad_values);
  add_path(state_weights_.projection, grad_weights);
  add_path(step_, grads.step);
  keep_for_wgrads(context, dropped_grad);
  keep_for_wgrads(context, grad_gate);
  keep_for_wgrads(context, gathered);
  const Buffer summed = sum_rows(context, tensor_, std::move(grad_normed), name);
  return norm_.backward(context, summed.view(), grad_output, saved);
}

MambaMixer::ScanInputGrads MambaMixer::scan_backward(LayerContext& context,
                                                     const TensorView& grad_scanned,
                                                     const SavedActivations& saved) const {
  Stream& stream = context.stream;
  const TensorView values = saved.at(values_.name + ".output");
  const TensorView weights = saved.at(state_weights_.name + ".output");
  const TensorView step = saved.at("mixer.step");
  const TensorView states = saved.at("mixer.scan.states");
  const std::int32_t sequences = shape_.sequences_of(step.shape[0]);
  const DType wide = arithmetic_type(step.dtype);
  ScanInputGrads grads{make_buffer(context, step.dtype, values.shape, values_.name),
                       make_buffer(context, step.dtype, weights.shape, state_weights_.name),
                       make_buffer(context, step.dtype, step.shape, "mixer.step")};
  const Buffer grad_state = make_buffer(context, wide, state_shape(sequences), "mixer.scan.state");
  for (const Buffer* rows : {&grads.values, &grads.state_weights, &grads.step}) {
    stream.fill(rows->view(), 0, op_label(context, "mixer.scan backward rows"));
  }
  // Nothing reads the state after the last chunk.
  stream.fill(grad_state.view(), 0, op_label(context, "mixer.scan backward"));
  for (std::int32_t chunk = chunks() - 1; chunk >= 0; --chunk) {
    const ScanParams params = scan_params(sequences, chunk);
    const Shape in_chunk = state_shape(params.rows());
    const Buffer inside = make_buffer(context, wide, in_chunk, "mixer.scan.states");
    const Buffer grad_inside = make_buffer(context, wide, in_chunk, "mixer.scan.grad_states");
    const Buffer sums = make_buffer(context, wide, {3, params.rows(), own_heads_}, "mixer.sums");
    selective_scan_backward(
        stream,
        {grads.values.view(), grads.state_weights.view(), grads.step.view(), step_bias_.main_grad,
         decay_log_.main_grad, skip_.main_grad, grad_state.view()},
        {inside.view(), grad_inside.view(), sums.view()}, grad_scanned, state_at(states, chunk),
        scan_inputs(kept_borders(saved), values, weights, step), params,
        op_label(context, fmt::format("mixer.scan chunk {} backward", chunk)));
  }
  return grads;
}

}  // namespace cgconform::workloads
