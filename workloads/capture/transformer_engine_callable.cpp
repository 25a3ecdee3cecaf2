#include "workloads/capture/transformer_engine_callable.hpp"

#include <vector>

#include <fmt/format.h>

#include "workloads/capture/eager_layers.hpp"
#include "workloads/capture/extra_runs.hpp"
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

void GraphedCallable::warm_up_forward(bool measured) {
  forward_launches_ = extra_run(
      context_, measured, [&] { output_ = body_.forward(sample_, warmup_mode, input_, saved_); });
}

void GraphedCallable::warm_up_backward(bool measured) {
  delayed_.clear();
  backward_launches_ = extra_run(context_, measured, [&] {
    grad_input_ = body_.backward(sample_, warmup_mode, grad_output_, saved_, &delayed_);
  });
  if (delayed_.left().empty()) give_back_activations();
  grad_input_.reset();
}

void GraphedCallable::warm_up_wgrads(bool measured) {
  wgrad_launches_ =
      extra_run(context_, measured, [&] { body_.add_wgrads(sample_, warmup_mode, delayed_); });
  give_back_activations();
}

void GraphedCallable::give_back_activations() {
  delayed_.clear();
  saved_.clear();
  output_.reset();
}

CaptureRequest GraphedCallable::request(const CallableCapture& capture, bool forward,
                                        bool wgrad) const {
  const std::uint64_t launches_of_backward = wgrad ? wgrad_launches_ : backward_launches_;
  return {.name = fmt::format("layer {}{}{} {} microbatch {}", sample_.layer,
                              sample_.scope.empty() ? "" : " ", sample_.scope,
                              pass_name(forward, wgrad), sample_.microbatch),
          .layer = sample_.layer,
          .microbatch = sample_.microbatch,
          .forward = forward,
          .wgrad = wgrad,
          .step = capture.step,
          .mode = CaptureMode::global,
          .pool = capture.pool,
          .input = forward ? input_.data : nullptr,
          .eager_body_launches = forward ? forward_launches_ : launches_of_backward};
}

void GraphedCallable::capture_forward(const CallableCapture& capture) {
  keeper_.capture(forward_graph_, request(capture, true, false), capture.hash_before, [&] {
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
  keeper_.capture(backward_graph_, request(capture, false, false), capture.hash_before, [&] {
    delayed_.clear();
    grad_input_ =
        body_.backward(sample_, capture_mode(capture.pool), grad_output_, saved_, &delayed_);
  });
  grad_input_view_ = grad_input_.view();
  keeper_.enter(backward_graph_, inputs);
  // Graphs captured later are replayed later, so they may take this memory.
  if (delayed_.left().empty()) give_back_activations();
}

void GraphedCallable::capture_wgrads(const CallableCapture& capture) {
  std::vector<TensorView> inputs{grad_output_, input_};
  for (const auto& [name, view] : saved_.views()) inputs.push_back(view);
  for (const DelayedWgrad& wgrad : delayed_.left()) {
    inputs.push_back(wgrad.grad);
    inputs.push_back(wgrad.input);
  }
  keeper_.capture(wgrad_graph_, request(capture, false, true), capture.hash_before,
                  [&] { body_.add_wgrads(sample_, capture_mode(capture.pool), delayed_); });
  keeper_.enter(wgrad_graph_, inputs);
  give_back_activations();
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
    eager_delayed_.clear();
    const Buffer grad_input = body_.backward(call, {}, grad_output_, eager_saved_, &eager_delayed_);
    context_.stream().copy(grad_input_view_, grad_input.view(), call.label());
  });
  ++backward_replays_;
  if (!has_wgrads()) note_gradients_added(call);
  return grad_input_view_;
}

void GraphedCallable::add_wgrads(const LayerCall& call) {
  keeper_.replay(wgrad_graph_, wgrad_execution(call),
                 [&] { body_.add_wgrads(call, {}, eager_delayed_); });
}

void GraphedCallable::note_gradients_added(const LayerCall& call) {
  // Host code of the captured body, the flag included, does not run at replay.
  if (context_.fault(Fault::f14c_grad_added_flag_only_in_capture)) return;
  body_.set_grad_added(call.layer, true);
}

void GraphedCallable::destroy_graphs() {
  keeper_.destroy(wgrad_graph_);
  keeper_.destroy(backward_graph_);
  keeper_.destroy(forward_graph_);
}

void GraphedCallable::release_memory() {
  give_back_activations();
  eager_saved_.clear();
  eager_delayed_.clear();
  grad_input_.reset();
}

}  // namespace cgconform::workloads
