#include "workloads/training/iteration.hpp"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "matrix/virtual_stages.hpp"
#include "workloads/layers/fp8_state.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

Iteration::Iteration(LegContext& context, const ParallelGroups& groups, StageModel& model,
                     LayerBody& body, BatchSlots& batches, TrainingMetrics& metrics)
    : context_(context),
      model_(model),
      body_(body),
      batches_(batches),
      metrics_(metrics),
      link_(groups.pipeline(), groups.pipeline_gradients(), context.stream()),
      reduction_(context, model, groups.of_gradients()),
      gather_(context, model, groups.of_gradients()),
      checks_(context) {
  context.gather = &gather_;
}

const std::vector<Buffer>& Iteration::losses(const IterationCall& call) const {
  static const std::vector<Buffer> none;
  const auto found = losses_.find({call.mode, call.partial});
  return found == losses_.end() ? none : found->second;
}

void Iteration::clear() {
  reduction_.clear();
  in_flight_.clear();
  losses_.clear();
}

void Iteration::run(const IterationCall& call, const BodyMode& mode,
                    CaptureImplementation& implementation, std::int32_t microbatches) {
  call_ = call;
  mode_ = mode;
  implementation_ = &implementation;
  microbatches_ = microbatches;
  PipelineLayout layout{
      .stages = link_.stages(),
      .stage = link_.stage(),
      .microbatches = microbatches,
      .chunks = matrix::chunks_a_stage(context_.cell),
      .microbatch_group = context_.cell.config.microbatch_group_size_per_vp_stage};
  const bool training = call.mode == IterationMode::training;
  const bool last_stage = layout.stage + 1 == layout.stages;
  if (training && last_stage && implementation.captured() &&
      context_.fault(Fault::f06b_rank_takes_other_interleave)) {
    layout.extra_warmup = 1;
  }
  const std::vector<PipelineAction> schedule =
      training ? training_schedule(layout) : forward_only(layout);
  std::vector<Buffer>& losses = losses_[{call.mode, call.partial}];
  losses.clear();
  losses.resize(static_cast<std::size_t>(microbatches));
  batches_.enter_body(call, mode);
  if (training) reduction_.begin(call.step);
  // An iteration that becomes a graph does in its first step what the graph does.
  const bool first_step = training && call.step == 0 && !implementation.needs_static_batches();
  gather_.begin(call.step, first_step, mode.capturing, implementation.captured());
  for (const PipelineAction& action : schedule) {
    if (!observes_at_once()) context_.recorder.gather_copies();
    switch (action.work) {
      case PipelineWork::forward:
        forward(call, {action.microbatch, action.chunk});
        break;
      case PipelineWork::backward:
        backward(call, {action.microbatch, action.chunk});
        break;
      case PipelineWork::transfer:
        transfer(action);
        break;
    }
  }
  if (!observes_at_once()) context_.recorder.make_copies();
  gather_.finish();
  if (!training) return;
  reduction_.finish();
  if (Fp8State* fp8 = model_.fp8()) fp8->end_step(context_.stream(), graph_faults());
}

const FaultSwitches& Iteration::graph_faults() const {
  const bool on = mode_.capturing || implementation_->captured();
  return on ? context_.environment.faults : no_faults_;
}

bool Iteration::observes_layers() const {
  return context_.recorder.instrumented() || !implementation_->needs_static_batches();
}

bool Iteration::observes_at_once() const {
  return context_.recorder.instrumented() || !implementation_->returns_lasting_values();
}

void Iteration::finish(const Pass& pass) {
  if (!observes_at_once()) context_.recorder.make_copies();
  implementation_->release(pass.microbatch, {chunk(pass).first_layer, chunk(pass).layer_count()});
  in_flight_.erase(pass);
}

void Iteration::gradients_ready(const Pass& pass, ModelPart part, std::int32_t layer) {
  // The micro-batches of a chunk run backwards in order.
  if (pass.microbatch + 1 == microbatches_) reduction_.ready(part, layer);
}

LayerContext Iteration::context_for(const IterationCall& call, std::int32_t microbatch,
                                    std::string_view part) const {
  const bool validation = call.mode == IterationMode::validation;
  return {.stream = context_.stream(),
          .allocator = context_.allocator(),
          .pool = mode_.pool,
          .rng = context_.rng,
          .faults = mode_.capturing ? context_.environment.faults : no_faults_,
          .tap = nullptr,
          .training = !validation,
          .step = call.step,
          .microbatch = microbatch,
          .label = fmt::format("{}step {} mb {} {}", validation ? "validation " : "", call.step,
                               microbatch, part)};
}

LayerCall Iteration::layer_call(const IterationCall& call, const Pass& pass,
                                std::size_t local) const {
  return {.module = chunk(pass).layers[local],
          .layer = chunk(pass).first_layer + static_cast<std::int32_t>(local),
          .step = call.step,
          .microbatch = pass.microbatch,
          .validation = call.mode == IterationMode::validation,
          .sequences = context_.cell.config.micro_batch_size,
          .valid_length = batches_.batch(call.mode, pass.microbatch).valid_length,
          .cu_seqlens = batches_.batch(call.mode, pass.microbatch).cu_seqlens,
          .partial = call.partial && pass.microbatch + 1 == microbatches_};
}

void Iteration::forward(const IterationCall& call, const Pass& pass) {
  InFlight& flight = in_flight_[pass];
  const std::int32_t microbatch = pass.microbatch;
  const ModelChunk& part = chunk(pass);
  const DeviceBatch& batch = batches_.batch(call.mode, microbatch);
  if (Fp8State* fp8 = model_.fp8()) {
    fp8->begin_microbatch(context_.stream(), microbatch, graph_faults());
  }
  if (part.first) {
    gather_.before(ModelPart::embedding);
    LayerContext context = context_for(call, microbatch, "embedding");
    flight.input = model_.embed(context, {batch.tokens, batch.images});
  }
  TensorView hidden = flight.input.view();
  Recorder& recorder = context_.recorder;
  for (std::size_t local = 0; local < part.layers.size(); ++local) {
    const LayerCall layer = layer_call(call, pass, local);
    gather_.before_layer(layer.layer);
    hidden = implementation_->forward(layer, hidden);
    if (observes_layers()) {
      recorder.observe(ObservedQuantity::layer_output, layer.at("output"), hidden);
    }
  }
  flight.output = hidden;
  if (!part.layers.empty()) {
    recorder.hash(SlotKind::output, SlotMoment::use,
                  layer_call(call, pass, part.layers.size() - 1).at("output"), hidden);
  }
  if (!part.last) return;
  gather_.before(ModelPart::head);
  LayerContext context = context_for(call, microbatch, "loss");
  Buffer& loss = losses_[{call.mode, call.partial}][static_cast<std::size_t>(microbatch)];
  loss = model_.loss(context, hidden, batch.labels, batch.loss_mask, flight.head_saved);
  recorder.observe(ObservedQuantity::loss,
                   {.step = call.step,
                    .microbatch = microbatch,
                    .validation = call.mode == IterationMode::validation,
                    .tensor = "loss"},
                   loss.view());
  if (call.mode == IterationMode::training) read_loss(loss.view(), call.step, microbatch);
  if (call.mode == IterationMode::validation) {
    finish(pass);
  } else {
    metrics_.add_tokens(batch.loss_mask, batch.counted_tokens, mode_.capturing);
  }
}

void Iteration::read_loss(const TensorView& loss, std::int32_t step, std::int32_t microbatch) {
  const bool checked = checks_.reads_loss();
  const bool parted = context_.cell.shape.capture_form == matrix::CaptureForm::partitioned;
  if (!checked && !parted) return;
  // One read for both: between two there would be a part without work.
  implementation_->read_on_host([this, loss, step, microbatch, checked, parted] {
    if (checked) checks_.check_loss(loss, step, microbatch);
    if (parted) metrics_.read_loss(loss);
  });
}

void Iteration::backward(const IterationCall& call, const Pass& pass) {
  InFlight& flight = in_flight_.at(pass);
  const std::int32_t microbatch = pass.microbatch;
  const ModelChunk& part = chunk(pass);
  const DeviceBatch& batch = batches_.batch(call.mode, microbatch);
  if (part.last) {
    LayerContext context = context_for(call, microbatch, "loss backward");
    flight.grad = model_.loss_backward(context, batch.labels, batch.loss_mask, context_.loss_scale,
                                       flight.head_saved);
    gradients_ready(pass, ModelPart::head);
  }
  TensorView grad = flight.grad.view();
  for (std::size_t local = part.layers.size(); local-- > 0;) {
    const LayerCall layer = layer_call(call, pass, local);
    body_.set_grad_added(layer.layer, false);
    grad = implementation_->backward(layer, grad);
    const bool waits = body_.delays_wgrads() && local == 0 && !part.first;
    if (!waits) finish_wgrads(layer, pass);
    if (observes_layers()) {
      context_.recorder.observe(ObservedQuantity::layer_grad_input, layer.at("grad_input"), grad);
    }
  }
  flight.grad_input = grad;
  if (!part.layers.empty()) {
    context_.recorder.hash(SlotKind::output, SlotMoment::use,
                           layer_call(call, pass, 0).at("grad_input"), grad);
  }
  if (part.first) {
    LayerContext context = context_for(call, microbatch, "embedding backward");
    model_.embed_backward(context, {batch.tokens, batch.images}, grad);
    gradients_ready(pass, ModelPart::embedding);
    finish(pass);
  }
}

void Iteration::finish_wgrads(const LayerCall& call, const Pass& pass) {
  if (body_.delays_wgrads()) implementation_->add_wgrads(call);
  add_gradients_where_not_fused(call);
  gradients_ready(pass, ModelPart::layer, call.layer);
}

void Iteration::finish_backward(const Pass& pass) {
  if (body_.delays_wgrads() && !chunk(pass).layers.empty()) {
    finish_wgrads(layer_call(call_, pass, 0), pass);
  }
  finish(pass);
}

void Iteration::add_gradients_where_not_fused(const LayerCall& call) {
  if (body_.grad_added(call.layer)) return;
  for (const Parameter& parameter : call.module->parameters()) {
    const TensorView& grad = parameter.main_grad;
    const Buffer unfused(context_.allocator(), context_.stream(), default_pool, grad.dtype,
                         grad.shape, "gradient");
    context_.stream().copy(unfused.view(), grad, "gradient hook");
    accumulate(context_.stream(), grad, unfused.view(), "gradient hook");
    context_.recorder.hash(SlotKind::weight_grad, SlotMoment::production,
                           call.at("main_grad:" + parameter.name), grad);
  }
}

Buffer Iteration::receive_buffer(std::int32_t microbatch, const char* label) {
  const Shape shape = context_.hidden_shape(batches_.batch(call_.mode, microbatch).tokens.shape[0]);
  return Buffer(context_.allocator(), context_.stream(), mode_.pool, context_.model_type(), shape,
                label);
}

void Iteration::transfer(const PipelineAction& action) {
  const std::string label = fmt::format("step {} mb {} pipeline", call_.step, action.microbatch);
  const Pass pass{action.microbatch, action.chunk};
  const Pass received_pass{action.received_microbatch, action.chunk};
  switch (action.transfer) {
    case PipelineTransfer::none:
      return;
    case PipelineTransfer::receive_input: {
      InFlight& flight = in_flight_[pass];
      flight.input = receive_buffer(action.microbatch, "received input");
      link_.receive_from_previous(flight.input.view(), label + " receive input");
      return;
    }
    case PipelineTransfer::send_output:
      link_.send_to_next(in_flight_.at(pass).output, label + " send output");
      if (call_.mode == IterationMode::validation) finish(pass);
      return;
    case PipelineTransfer::send_output_receive_grad: {
      InFlight& received = in_flight_.at(received_pass);
      received.grad = receive_buffer(action.received_microbatch, "received gradient");
      link_.exchange_with_next(in_flight_.at(pass).output, received.grad.view(),
                               label + " send output, receive gradient");
      return;
    }
    case PipelineTransfer::receive_grad: {
      InFlight& flight = in_flight_.at(pass);
      flight.grad = receive_buffer(action.microbatch, "received gradient");
      link_.receive_from_next(flight.grad.view(), label + " receive gradient");
      return;
    }
    case PipelineTransfer::send_grad:
      link_.send_to_previous(in_flight_.at(pass).grad_input, label + " send gradient");
      finish_backward(pass);
      return;
    case PipelineTransfer::send_grad_receive_input: {
      InFlight& received = in_flight_[received_pass];
      received.input = receive_buffer(action.received_microbatch, "received input");
      link_.exchange_with_previous(in_flight_.at(pass).grad_input, received.input.view(),
                                   label + " send gradient, receive input");
      finish_backward(pass);
      return;
    }
  }
}

}  // namespace cgconform::workloads
