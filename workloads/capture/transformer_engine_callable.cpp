#include "workloads/capture/transformer_engine_callable.hpp"

#include <vector>

#include <fmt/format.h>

#include "workloads/capture/eager_layers.hpp"
#include "workloads/capture/static_input.hpp"

namespace cgconform::workloads {
namespace {

/// Checkpoints of modules do nothing while callables are warmed up and captured.
constexpr BodyMode warmup_mode{.checkpoints = false};

BodyMode capture_mode(PoolId pool) {
  return {.pool = pool, .capturing = true, .checkpoints = false};
}

}  // namespace

GraphedCallable::GraphedCallable(LegContext& context, LayerBody& body, GraphKeeper& keeper,
                                 const LayerCall& sample, const TensorView& input,
                                 const TensorView& grad_output)
    : context_(context),
      body_(body),
      keeper_(keeper),
      sample_(sample),
      input_(input),
      grad_output_(grad_output) {}

void GraphedCallable::warm_up(bool measured, std::uint64_t& launches,
                              const std::function<void()>& run) {
  if (!measured) {
    context_.recorder.mute(true);
    run();
    context_.recorder.mute(false);
    return;
  }
  // What instruments add to a capture belongs to its launches; what they see here is dropped.
  GraphSlots dropped;
  context_.device().settle_counters();
  const LaunchCounters before = context_.device().counters();
  const GraphRecording recording(context_.recorder, dropped, default_pool);
  run();
  context_.device().settle_counters();
  launches = context_.device().counters().eager_launches - before.eager_launches;
}

void GraphedCallable::warm_up_forward(bool measured) {
  warm_up(measured, forward_launches_,
          [&] { output_ = body_.forward(sample_, warmup_mode, input_, saved_); });
}

void GraphedCallable::warm_up_backward(bool measured) {
  warm_up(measured, backward_launches_,
          [&] { grad_input_ = body_.backward(sample_, warmup_mode, grad_output_, saved_); });
  saved_.clear();
  output_.reset();
  grad_input_.reset();
}

CaptureRequest GraphedCallable::request(bool forward, const CallableCapture& capture) const {
  return {.name = fmt::format("layer {}{}{} {} microbatch {}", sample_.layer,
                              sample_.scope.empty() ? "" : " ", sample_.scope,
                              forward ? "forward" : "backward", sample_.microbatch),
          .layer = sample_.layer,
          .microbatch = sample_.microbatch,
          .forward = forward,
          .step = capture.step,
          .mode = CaptureMode::global,
          .pool = capture.pool,
          .input = forward ? input_.data : nullptr,
          .eager_body_launches = forward ? forward_launches_ : backward_launches_};
}

void GraphedCallable::capture_forward(const CallableCapture& capture) {
  keeper_.capture(forward_graph_, request(true, capture), capture.hash_before, [&] {
    saved_.clear();
    output_ = body_.forward(sample_, capture_mode(capture.pool), input_, saved_);
    if (capture.prefetched.data != nullptr && capture.prefetched.data != input_.data) {
      context_.stream().copy(capture.prefetched, input_, "prefetch");
    }
  });
  output_view_ = output_.view();
  std::vector<TensorView> inputs{input_};
  if (sample_.cu_seqlens.valid()) inputs.push_back(sample_.cu_seqlens);
  keeper_.enter(forward_graph_, inputs);
}

void GraphedCallable::capture_backward(const CallableCapture& capture) {
  std::vector<TensorView> inputs{grad_output_, input_, output_view_};
  for (const auto& [name, view] : saved_.views()) inputs.push_back(view);
  keeper_.capture(backward_graph_, request(false, capture), capture.hash_before, [&] {
    grad_input_ = body_.backward(sample_, capture_mode(capture.pool), grad_output_, saved_);
  });
  grad_input_view_ = grad_input_.view();
  keeper_.enter(backward_graph_, inputs);
  // Graphs captured later are replayed later, so they may take this memory.
  saved_.clear();
  output_.reset();
}

TensorView GraphedCallable::forward(const LayerCall& call, const TensorView& input) {
  for (const std::function<void()>& hook : hooks_) hook();
  refresh_static_input(context_, call, {"input", input_, forward_replays_}, input);
  if (sample_.cu_seqlens.valid()) {
    refresh_static_input(context_, call, {"cu_seqlens", sample_.cu_seqlens, forward_replays_},
                         call.cu_seqlens);
  }
  ExecutionRecord execution = layer_execution(call, true);
  execution.hooks = hooks_.size();
  keeper_.replay(forward_graph_, std::move(execution), [&] {
    eager_saved_.clear();
    const Buffer output = body_.forward(call, {}, input_, eager_saved_);
    context_.stream().copy(output_view_, output.view(), call.label());
  });
  ++forward_replays_;
  return output_view_;
}

TensorView GraphedCallable::backward(const LayerCall& call, const TensorView& grad_output) {
  refresh_static_input(context_, call, {"grad_output", grad_output_, backward_replays_},
                       grad_output);
  keeper_.replay(backward_graph_, layer_execution(call, false), [&] {
    const Buffer grad_input = body_.backward(call, {}, grad_output_, eager_saved_);
    context_.stream().copy(grad_input_view_, grad_input.view(), call.label());
  });
  ++backward_replays_;
  // Host code of the captured body, the flag included, does not run at replay.
  if (!context_.fault(Fault::f14c_grad_added_flag_only_in_capture)) {
    body_.set_grad_added(call.layer, true);
  }
  return grad_input_view_;
}

void GraphedCallable::destroy_graphs() {
  keeper_.destroy(backward_graph_);
  keeper_.destroy(forward_graph_);
}

void GraphedCallable::release_memory() {
  saved_.clear();
  eager_saved_.clear();
  output_.reset();
  grad_input_.reset();
}

}  // namespace cgconform::workloads
