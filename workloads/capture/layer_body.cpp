#include "workloads/capture/layer_body.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "workloads/layers/bias_gradients.hpp"
#include "workloads/layers/checkpoint.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/training/data_loader.hpp"
#include "workloads/training/parameter_gather.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {
namespace {

/// Events by which a backward forks and joins.
enum ForkEvent : std::size_t { started_event, zeroed_event, wgrad_event, first_join_event };

std::size_t join_event(std::int64_t branch) {
  return first_join_event + static_cast<std::size_t>(branch);
}

}  // namespace

TensorLocation LayerCall::at(std::string tensor) const {
  const bool before = tensor == "input" || tensor == "grad_input";
  const bool after = tensor == "output" || tensor == "grad_output";
  const bool inside = (before && !opens) || (after && !closes);
  return {step, microbatch, layer, validation,
          inside ? fmt::format("{}.{}", scope, tensor) : std::move(tensor)};
}

std::string LayerCall::label() const {
  const bool again = activations == Activations::recomputed;
  return fmt::format("{}step {} mb {} layer {}{}{}{}{}", validation ? "validation " : "", step,
                     microbatch, layer, scope.empty() ? "" : " ", scope, again ? " " : "",
                     again ? recompute_label : "");
}

LayerBody::LayerBody(LegContext& context)
    : context_(context), captured_(context.environment.faults), faults_(context) {
  // Without both trackers the draws are made from scalars of the host, as the default tracker does.
  const matrix::TrainingConfig& config = context.cell.config;
  if (!config.use_te_rng_tracker || !config.te_rng_tracker) {
    captured_.turn_on(Fault::f07a_offset_by_value);
  }
  zeros_ = Buffer(context.allocator(), context.stream(), default_pool, context.model_type(),
                  context.hidden_shape(), "zeros");
  context.stream().fill(zeros_.view(), 0, "zeros");
  if (config.sequence_packing == matrix::SequencePacking::none) return;
  borders_ = Buffer(context.allocator(), context.stream(), default_pool, DType::int32,
                    {config.micro_batch_size, packed_borders}, "static cu_seqlens");
  // One sequence a row, until the first replay brings what is packed.
  context.stream().fill(borders_.view(), 0, "static cu_seqlens");
}

LayerContext LayerBody::layer_context(const LayerCall& call, const BodyMode& mode,
                                      RecordingTap* tap) {
  return {.stream = context_.stream(),
          .allocator = context_.allocator(),
          .pool = mode.pool,
          .rng = context_.rng,
          .faults = mode.capturing ? captured_ : no_faults_,
          .tap = tap,
          .training = !call.validation,
          .step = call.step,
          .microbatch = call.microbatch,
          .label = call.label(),
          .recompute = call.validation ? matrix::RecomputeModules{} : recomputed_modules(mode),
          .recomputing = call.activations == Activations::recomputed,
          .loss_scale = context_.loss_scale,
          .cu_seqlens = call.cu_seqlens};
}

matrix::RecomputeModules LayerBody::recomputed_modules(const BodyMode& mode) const {
  using matrix::RecomputeModule;
  using matrix::RecomputeModules;
  const matrix::TrainingConfig& config = context_.cell.config;
  if (config.recompute_granularity != matrix::RecomputeGranularity::selective) return {};
  RecomputeModules modules =
      config.recompute_modules.value_or(RecomputeModules{RecomputeModule::core_attn});
  if (!mode.checkpoints) {
    modules.erase(RecomputeModule::core_attn);
    // In 8 bits these checkpoints are Transformer Engine's, which does not leave them out.
    const bool in_8_bits = config.fp8 != matrix::Fp8Format::none;
    for (const RecomputeModule module :
         {RecomputeModule::mlp, RecomputeModule::moe, RecomputeModule::shared_experts}) {
      if (!in_8_bits) modules.erase(module);
    }
  }
  if (!mode.discards_outputs) {
    modules.erase(RecomputeModule::layernorm);
    modules.erase(RecomputeModule::moe_act);
    modules.erase(RecomputeModule::mla_up_proj);
  }
  return modules;
}

Buffer LayerBody::forward(const LayerCall& call, const BodyMode& mode, const TensorView& input,
                          SavedActivations& saved) {
  ++host_executions_;
  Recorder& recorder = context_.recorder;
  const bool again = call.activations == Activations::recomputed;
  if (!call.validation && !again && call.opens) ++training_forwards_;
  if (!again) recorder.hash(SlotKind::static_input, SlotMoment::use, call.at("input"), input);
  if (!again && call.cu_seqlens.valid()) {
    recorder.hash(SlotKind::static_input, SlotMoment::use, call.at("cu_seqlens"), call.cu_seqlens);
  }
  RecordingTap tap(recorder, call.at({}));
  const bool taps = recorder.instrumented() && !again;
  LayerContext layer = layer_context(call, mode, taps ? &tap : nullptr);
  // F19j: a hook that is not switched off runs where the layer is called.
  if (mode.capturing && context_.fault(Fault::f19j_hooks_on_at_capture)) {
    context_.gather->gather_inside(call.layer);
  }
  Buffer output = call.module->forward(layer, input, saved);
  if (recorder.instrumented() && call.activations != Activations::dropped) {
    for (const auto& [name, view] : saved.views()) {
      recorder.hash(SlotKind::saved_activation, SlotMoment::production, call.at(name), view);
    }
  }
  if (!again) {
    recorder.hash(SlotKind::output, SlotMoment::production, call.at("output"), output.view());
  }
  return output;
}

void LayerBody::observe_recomputed_masks(const LayerCall& call, const SavedActivations& saved) {
  if (!context_.recorder.instrumented()) return;
  for (const auto& [name, buffer] : saved.all()) {
    const std::string_view mask = mask_name(name);
    if (mask.empty()) continue;
    context_.recorder.observe(ObservedQuantity::recomputed_mask,
                              call.at(fmt::format("dropout_mask:{}", mask)), buffer.view());
  }
}

Buffer LayerBody::backward(const LayerCall& call, const BodyMode& mode,
                           const TensorView& grad_output, SavedActivations& saved,
                           DelayedWgrads* delayed) {
  ++host_executions_;
  Recorder& recorder = context_.recorder;
  recorder.hash(SlotKind::static_input, SlotMoment::use, call.at("grad_output"), grad_output);
  if (recorder.instrumented()) {
    for (const auto& [name, view] : saved.views()) {
      recorder.hash(SlotKind::saved_activation, SlotMoment::use, call.at(name), view);
    }
  }
  Buffer workspace;
  const TensorView grad = call.closes ? gather(call, mode, grad_output, workspace) : grad_output;
  if (mode.capturing) faults_.before_layer_backward(*call.module, call.layer, mode.pool);
  RecordingTap tap(recorder, call.at({}));
  LayerContext layer = layer_context(call, mode, recorder.instrumented() ? &tap : nullptr);
  if (delays_wgrads()) layer.delayed = delayed;
  BiasGradients bias_gradients;
  std::optional<WgradBranch> branch;
  if (call.module->can_delay_wgrads()) {
    layer.bias_gradients = &bias_gradients;
    if (mode.capturing && !delays_wgrads()) {
      layer.wgrad_branch = &branch.emplace(context_.stream(), context_.memory.wgrad_stream(),
                                           context_.memory.fork_event(wgrad_event));
    }
  }
  Buffer grad_input = call.module->backward(layer, grad, saved);
  bias_gradients.add_all(layer.stream, layer.label);
  keep_for_wgrads(layer, workspace);
  if (branch) branch->join();
  context_.pass(mode.capturing ? ReturnPoint::in_capture : ReturnPoint::in_step);
  if (mode.capturing) faults_.after_layer_backward(*call.module, call.layer);
  const bool leaves_some = delayed != nullptr && !delayed->left().empty();
  if (leaves_some) hash_delayed(SlotMoment::production, call, *delayed);
  if (!leaves_some) hash_gradients(call);
  recorder.hash(SlotKind::output, SlotMoment::production, call.at("grad_input"), grad_input.view());
  if (!leaves_some) note_wgrads(call, mode);
  return grad_input;
}

void LayerBody::add_wgrads(const LayerCall& call, const BodyMode& mode,
                           const DelayedWgrads& delayed) {
  ++host_executions_;
  hash_delayed(SlotMoment::use, call, delayed);
  LayerContext layer = layer_context(call, mode, nullptr);
  BiasGradients bias_gradients;
  layer.bias_gradients = &bias_gradients;
  delayed.add_all(layer);
  bias_gradients.add_all(layer.stream, layer.label);
  hash_gradients(call);
  note_wgrads(call, mode);
}

void LayerBody::hash_delayed(SlotMoment moment, const LayerCall& call,
                             const DelayedWgrads& delayed) {
  if (!context_.recorder.instrumented()) return;
  for (const DelayedWgrad& wgrad : delayed.left()) {
    for (const auto& [what, tensor] :
         {std::pair{"gradient", wgrad.grad}, std::pair{"input", wgrad.input}}) {
      context_.recorder.hash(SlotKind::saved_activation, moment,
                             call.at(fmt::format("delayed {} of {}", what, wgrad.name)), tensor);
    }
  }
}

void LayerBody::hash_gradients(const LayerCall& call) {
  if (!context_.recorder.instrumented()) return;
  for (const Parameter& parameter : call.module->parameters()) {
    context_.recorder.hash(SlotKind::weight_grad, SlotMoment::production,
                           call.at("main_grad:" + parameter.name), parameter.main_grad);
  }
}

void LayerBody::note_wgrads(const LayerCall& call, const BodyMode& mode) {
  if (mode.capturing) faults_.after_gradients_hashed(*call.module, mode.pool);
  grad_added_[call.layer] = true;
}

TensorView LayerBody::gather(const LayerCall& call, const BodyMode& mode, const TensorView& grad,
                             Buffer& workspace) {
  Stream& main = context_.stream();
  CachingAllocator& allocator = context_.allocator();
  const std::string label = call.label() + " gather grad_output";
  const std::int64_t rows = grad.shape[0];
  const bool capturing = mode.capturing;
  if (context_.request.kind == LegKind::eager) {
    // What the branches would leave there: without graphs there is no fork to be captured.
    workspace = Buffer(allocator, main, mode.pool, grad.dtype, grad.shape, "gradient workspace");
    add(main, workspace.view(), rows_of(zeros_.view(), 0, rows), grad, label);
    return workspace.view();
  }

  TensorView source = grad;
  Buffer staged;
  if (capturing && faults_.frees_before_join()) {
    staged = Buffer(allocator, main, mode.pool, grad.dtype, grad.shape, "staged gradient");
    main.copy(staged.view(), grad, label);
    source = staged.view();
  }
  Event& started = context_.memory.fork_event(started_event);
  main.record(started);
  TensorView gathered;
  if (capturing) {
    gathered = faults_.workspace(mode.pool, grad, workspace);
    faults_.zero_workspace(gathered, zeros_.view(), mode.pool);
  } else {
    workspace = Buffer(allocator, main, mode.pool, grad.dtype, grad.shape, "gradient workspace");
    gathered = workspace.view();
    main.copy(gathered, rows_of(zeros_.view(), 0, rows), "zero gradient workspace");
  }
  Event& zeroed = context_.memory.fork_event(zeroed_event);
  main.record(zeroed);

  const std::int64_t branches =
      capturing ? faults_.branches(rows) : std::min<std::int64_t>(rows, 2);
  for (std::int64_t branch = 0; branch < branches; ++branch) {
    const std::int64_t first = rows * branch / branches;
    const std::int64_t count = rows * (branch + 1) / branches - first;
    Stream& side = context_.memory.side_stream(static_cast<std::size_t>(branch));
    side.wait(capturing && faults_.drops_wait(branch) ? started : zeroed);
    accumulate(side, rows_of(gathered, first, count), rows_of(source, first, count), label);
    side.record(context_.memory.fork_event(join_event(branch)));
  }
  if (staged.valid()) {
    staged.reset();
    Buffer reused(allocator, main, mode.pool, grad.dtype, grad.shape, "block reused before join");
    main.fill(reused.view(), 0, label);
  }
  for (std::int64_t branch = 0; branch < branches; ++branch) {
    main.wait(context_.memory.fork_event(join_event(branch)));
  }
  return gathered;
}

}  // namespace cgconform::workloads
