#include "workloads/training/iteration.hpp"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

Iteration::Iteration(LegContext& context, StageModel& model, LayerBody& body, BatchSlots& batches)
    : context_(context),
      model_(model),
      body_(body),
      batches_(batches),
      link_(
          context.cell.config.pipeline_model_parallel_size > 1 ? context.environment.gang : nullptr,
          context.stream()) {}

const std::vector<Buffer>& Iteration::losses(IterationMode mode) const {
  static const std::vector<Buffer> none;
  const auto found = losses_.find(mode);
  return found == losses_.end() ? none : found->second;
}

void Iteration::clear() {
  in_flight_.clear();
  losses_.clear();
}

void Iteration::run(const IterationCall& call, const BodyMode& mode,
                    CaptureImplementation& implementation, std::int32_t microbatches) {
  call_ = call;
  mode_ = mode;
  implementation_ = &implementation;
  const PipelineLayout layout{link_.stages(), link_.stage(), microbatches};
  const std::vector<PipelineAction> schedule = call.mode == IterationMode::training
                                                   ? one_forward_one_backward(layout)
                                                   : forward_only(layout);
  std::vector<Buffer>& losses = losses_[call.mode];
  losses.clear();
  losses.resize(static_cast<std::size_t>(microbatches));
  batches_.enter_body(call, mode);
  for (const PipelineAction& action : schedule) {
    switch (action.work) {
      case PipelineWork::forward:
        forward(call, action.microbatch);
        break;
      case PipelineWork::backward:
        backward(call, action.microbatch);
        break;
      case PipelineWork::transfer:
        transfer(action);
        break;
    }
  }
}

bool Iteration::observes_layers() const {
  return context_.recorder.instrumented() || !implementation_->needs_static_batches();
}

void Iteration::finish(std::int32_t microbatch) {
  implementation_->release(microbatch);
  in_flight_.erase(microbatch);
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

LayerCall Iteration::layer_call(const IterationCall& call, std::int32_t microbatch,
                                std::size_t local) const {
  return {.module = model_.layers()[local],
          .layer = model_.first_layer() + static_cast<std::int32_t>(local),
          .step = call.step,
          .microbatch = microbatch,
          .validation = call.mode == IterationMode::validation,
          .sequences = context_.cell.config.micro_batch_size,
          .valid_length = batches_.batch(call.mode, microbatch).valid_length};
}

void Iteration::forward(const IterationCall& call, std::int32_t microbatch) {
  InFlight& flight = in_flight_[microbatch];
  const DeviceBatch& batch = batches_.batch(call.mode, microbatch);
  if (model_.first()) {
    LayerContext context = context_for(call, microbatch, "embedding");
    flight.input = model_.embed(context, batch.tokens);
  }
  TensorView hidden = flight.input.view();
  Recorder& recorder = context_.recorder;
  for (std::size_t local = 0; local < model_.layers().size(); ++local) {
    const LayerCall layer = layer_call(call, microbatch, local);
    hidden = implementation_->forward(layer, hidden);
    if (observes_layers()) {
      recorder.observe(ObservedQuantity::layer_output, layer.at("output"), hidden);
    }
  }
  flight.output = hidden;
  if (!model_.layers().empty()) {
    recorder.hash(SlotKind::output, SlotMoment::use,
                  layer_call(call, microbatch, model_.layers().size() - 1).at("output"), hidden);
  }
  if (!model_.last()) return;
  LayerContext context = context_for(call, microbatch, "loss");
  Buffer& loss = losses_[call.mode][static_cast<std::size_t>(microbatch)];
  loss = model_.loss(context, hidden, batch.labels, batch.loss_mask, flight.head_saved);
  recorder.observe(ObservedQuantity::loss,
                   {.step = call.step,
                    .microbatch = microbatch,
                    .validation = call.mode == IterationMode::validation,
                    .tensor = "loss"},
                   loss.view());
  if (call.mode == IterationMode::validation) finish(microbatch);
}

void Iteration::backward(const IterationCall& call, std::int32_t microbatch) {
  InFlight& flight = in_flight_.at(microbatch);
  const DeviceBatch& batch = batches_.batch(call.mode, microbatch);
  if (model_.last()) {
    LayerContext context = context_for(call, microbatch, "loss backward");
    flight.grad = model_.loss_backward(context, batch.labels, batch.loss_mask, flight.head_saved);
  }
  TensorView grad = flight.grad.view();
  for (std::size_t local = model_.layers().size(); local-- > 0;) {
    const LayerCall layer = layer_call(call, microbatch, local);
    body_.set_grad_added(layer.layer, false);
    grad = implementation_->backward(layer, grad);
    add_gradients_where_not_fused(layer);
    if (observes_layers()) {
      context_.recorder.observe(ObservedQuantity::layer_grad_input, layer.at("grad_input"), grad);
    }
  }
  flight.grad_input = grad;
  if (!model_.layers().empty()) {
    context_.recorder.hash(SlotKind::output, SlotMoment::use,
                           layer_call(call, microbatch, 0).at("grad_input"), grad);
  }
  if (model_.first()) {
    LayerContext context = context_for(call, microbatch, "embedding backward");
    model_.embed_backward(context, batch.tokens, grad);
    finish(microbatch);
  }
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

Buffer Iteration::receive_buffer(const char* label) {
  return Buffer(context_.allocator(), context_.stream(), mode_.pool, context_.model_type(),
                context_.hidden_shape(), label);
}

void Iteration::transfer(const PipelineAction& action) {
  const std::string label = fmt::format("step {} mb {} pipeline", call_.step, action.microbatch);
  switch (action.transfer) {
    case PipelineTransfer::none:
      return;
    case PipelineTransfer::receive_input: {
      InFlight& flight = in_flight_[action.microbatch];
      flight.input = receive_buffer("received input");
      link_.receive_from_previous(flight.input.view(), label + " receive input");
      return;
    }
    case PipelineTransfer::send_output:
      link_.send_to_next(in_flight_.at(action.microbatch).output, label + " send output");
      if (call_.mode == IterationMode::validation) finish(action.microbatch);
      return;
    case PipelineTransfer::send_output_receive_grad: {
      InFlight& received = in_flight_.at(action.received_microbatch);
      received.grad = receive_buffer("received gradient");
      link_.exchange_with_next(in_flight_.at(action.microbatch).output, received.grad.view(),
                               label + " send output, receive gradient");
      return;
    }
    case PipelineTransfer::receive_grad: {
      InFlight& flight = in_flight_.at(action.microbatch);
      flight.grad = receive_buffer("received gradient");
      link_.receive_from_next(flight.grad.view(), label + " receive gradient");
      return;
    }
    case PipelineTransfer::send_grad:
      link_.send_to_previous(in_flight_.at(action.microbatch).grad_input, label + " send gradient");
      finish(action.microbatch);
      return;
    case PipelineTransfer::send_grad_receive_input: {
      InFlight& received = in_flight_[action.received_microbatch];
      received.input = receive_buffer("received input");
      link_.exchange_with_previous(in_flight_.at(action.microbatch).grad_input,
                                   received.input.view(), label + " send gradient, receive input");
      finish(action.microbatch);
      return;
    }
  }
}

}  // namespace cgconform::workloads
