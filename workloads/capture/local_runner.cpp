#include "workloads/capture/local_runner.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "workloads/capture/eager_layers.hpp"
#include "workloads/capture/static_input.hpp"
#include "workloads/ops/verification.hpp"

namespace cgconform::workloads {
namespace {

/// Fills a new static slot with a small number in every floating-point type. With zeros, work that
/// runs during its own capture would add nothing to the gradients and go unseen.
constexpr std::uint8_t slot_byte = 0x3F;

/// In warm-up and capture checkpoints of modules do nothing; in warm-up no output is discarded.
constexpr BodyMode warmup_mode{.checkpoints = false, .discards_outputs = false};

BodyMode capture_mode(PoolId pool) {
  return {.pool = pool, .capturing = true, .checkpoints = false};
}

/// The gradients of a layer, those that follow each other in one block of memory as one tensor.
std::vector<TensorView> gradient_stretches(const CachingAllocator& allocator, const Layer& layer) {
  std::vector<TensorView> stretches;
  std::uint64_t block = 0;
  for (const Parameter& parameter : layer.parameters()) {
    const TensorView& grad = parameter.main_grad;
    const std::uint64_t own_block = allocator.look_up(grad.data).generation;
    const bool follows =
        !stretches.empty() && own_block == block && grad.data > stretches.back().data;
    if (follows) {
      TensorView& last = stretches.back();
      const std::ptrdiff_t offset =
          static_cast<const std::byte*>(grad.data) - static_cast<const std::byte*>(last.data);
      last.shape = Shape{offset / dtype_bytes(grad.dtype) + grad.elements()};
    } else {
      stretches.push_back({grad.data, grad.dtype, Shape{grad.elements()}});
    }
    block = own_block;
  }
  return stretches;
}

/// Copies of what the extra runs change, put back when the scope ends well.
class StateKeeper {
 public:
  StateKeeper(LegContext& context, const Layer& layer) : context_(context) {
    keep(context.rng.states);
    for (const TensorView& grads : gradient_stretches(context.allocator(), layer)) keep(grads);
    if (!context.fault(Fault::f12e_scaling_kept_over_warmup)) {
      for (const TensorView& state : context.model_state) keep(state);
    }
    std::vector<CopyPair> pairs;
    for (const auto& [tensor, copy] : kept_) pairs.push_back({copy.view(), tensor});
    copies(context.stream(), pairs, "keep over warm-up");
  }

  void restore() {
    std::vector<CopyPair> pairs;
    for (const auto& [tensor, copy] : kept_) pairs.push_back({tensor, copy.view()});
    copies(context_.stream(), pairs, "restore after warm-up");
  }

 private:
  void keep(const TensorView& tensor) {
    kept_.emplace_back(tensor, Buffer(context_.allocator(), context_.stream(), default_pool,
                                      tensor.dtype, tensor.shape, "kept over warm-up"));
  }

  LegContext& context_;
  std::vector<std::pair<TensorView, Buffer>> kept_;
};

}  // namespace

LocalRunner::LocalRunner(LegContext& context, LayerBody& body, GraphKeeper& keeper,
                         const LayerCall& call)
    : context_(context), body_(body), keeper_(keeper), first_call_(call) {
  first_call_.cu_seqlens = body.borders_slot();
}

void LocalRunner::see(Input& target, const TensorView& input, LocalRunner* producer) {
  // The alias holds only if every recorded call got the same producer's output.
  target.producer = target.recorded && target.producer != producer ? nullptr : producer;
  target.seen = input;
  target.recorded = true;
}

void LocalRunner::see_input(const TensorView& input, LocalRunner* producer) {
  see(input_, input, producer);
  if (producer != nullptr) producer->output_read_by_runner_ = true;
}

void LocalRunner::see_grad_output(const TensorView& grad_output, LocalRunner* producer) {
  see(grad_output_, grad_output, producer);
  if (producer != nullptr) producer->grad_input_read_by_runner_ = true;
}

void LocalRunner::see_launches(bool forward, std::uint64_t launches) {
  (forward ? forward_launches_ : backward_launches_) = launches;
}

void LocalRunner::prepare(Input& target, const TensorView& produced, PoolId pool,
                          const char* label) {
  if (target.producer != nullptr) {
    target.slot = produced;
    return;
  }
  target.own = Buffer(context_.allocator(), context_.stream(), pool, target.seen.dtype,
                      target.seen.shape, label);
  target.slot = target.own.view();
  context_.stream().fill(target.slot, slot_byte, label);
}

CaptureRequest LocalRunner::request(bool forward, PoolId pool) const {
  return {.name = fmt::format("layer {}{}{} {} microbatch {}", first_call_.layer,
                              first_call_.scope.empty() ? "" : " ", first_call_.scope,
                              forward ? "forward" : "backward", first_call_.microbatch),
          .layer = first_call_.layer,
          .microbatch = first_call_.microbatch,
          .forward = forward,
          .scope = first_call_.scope,
          .step = first_call_.step,
          // The forward of the real implementation is captured in thread-local mode, its backward
          // in the framework's default, which is global.
          .mode = forward ? CaptureMode::thread_local_mode : CaptureMode::global,
          .pool = pool,
          .eager_body_launches = forward ? forward_launches_ : backward_launches_};
}

void LocalRunner::warm_up(const LayerCall& call) {
  const bool recompute =
      context_.cell.config.recompute_granularity != matrix::RecomputeGranularity::none;
  const std::int32_t runs = std::max(context_.plan.warmup_steps, recompute ? 1 : 0);
  if (runs <= 0) return;
  context_.clock.enter(Phase::warmup);
  StateKeeper state(context_, *call.module);
  context_.recorder.mute(true);
  for (std::int32_t i = 0; i < runs; ++i) run_extra(call, warmup_mode, {});
  context_.recorder.mute(false);
  if (recompute) measure(call);
  state.restore();
}

void LocalRunner::run_extra(const LayerCall& call, const BodyMode& mode,
                            const std::function<void()>& between) {
  Stream& stream = context_.stream();
  Buffer input(context_.allocator(), stream, mode.pool, input_.slot.dtype, input_.slot.shape,
               "warm-up input");
  stream.fill(input.view(), 0, "warm-up input");
  Buffer grad(context_.allocator(), stream, mode.pool, grad_output_.seen.dtype,
              grad_output_.seen.shape, "warm-up gradient");
  stream.fill(grad.view(), 0, "warm-up gradient");
  SavedActivations saved;
  if (between) between();
  const Buffer output = body_.forward(call, mode, input.view(), saved);
  if (between) between();
  const Buffer grad_input = body_.backward(call, mode, grad.view(), saved);
  if (between) between();
}

void LocalRunner::measure(const LayerCall& call) {
  std::vector<std::uint64_t> counts;
  GraphSlots dropped;
  const GraphRecording recording(context_.recorder, dropped, default_pool);
  run_extra(call, {.checkpoints = false}, [&] {
    context_.device().settle_counters();
    counts.push_back(context_.device().counters().eager_launches);
  });
  forward_launches_ = counts.at(1) - counts.at(0);
  backward_launches_ = counts.at(2) - counts.at(1);
}

void LocalRunner::capture_forward(PoolId pool) {
  const TensorView produced =
      input_.producer != nullptr ? input_.producer->output_view_ : TensorView{};
  prepare(input_, produced, pool, "static input");
  const std::uint64_t hash_before = keeper_.hash_guarded();
  warm_up(first_call_);
  keeper_.capture(forward_graph_, request(true, pool), hash_before, [&] {
    saved_.clear();
    output_ = body_.forward(first_call_, capture_mode(pool), input_.slot, saved_);
  });
  output_view_ = output_.view();
  std::vector<TensorView> inputs{input_.slot};
  if (first_call_.cu_seqlens.valid()) inputs.push_back(first_call_.cu_seqlens);
  keeper_.enter(forward_graph_, inputs);
}

void LocalRunner::capture_backward(PoolId pool) {
  const TensorView produced =
      grad_output_.producer != nullptr ? grad_output_.producer->grad_input_view_ : TensorView{};
  prepare(grad_output_, produced, pool, "static grad_output");
  std::vector<TensorView> inputs{grad_output_.slot, input_.slot, output_view_};
  for (const auto& [name, view] : saved_.views()) inputs.push_back(view);
  const std::uint64_t hash_before = keeper_.hash_guarded();
  keeper_.capture(backward_graph_, request(false, pool), hash_before, [&] {
    grad_input_ = body_.backward(first_call_, capture_mode(pool), grad_output_.slot, saved_);
  });
  grad_input_view_ = grad_input_.view();
  keeper_.enter(backward_graph_, inputs);
  // From here on only eager code may still read this runner's outputs; the rest of its memory goes
  // back to the pool, where graphs captured later, and hence replayed later, may take it.
  saved_.clear();
  if (output_read_by_runner_) output_.reset();
  if (LocalRunner* producer = grad_output_.producer; producer != nullptr) {
    producer->grad_input_.reset();
  }
}

void LocalRunner::refresh(const Input& target, const TensorView& given, const LayerCall& call,
                          const char* tensor) {
  if (target.producer != nullptr && given.data != target.slot.data) {
    throw InternalError(
        fmt::format("{}: {} has moved although it was proven to be the output of "
                    "another graph",
                    call.label(), tensor));
  }
  refresh_static_input(context_, call, {tensor, target.slot, replays_}, given);
}

TensorView LocalRunner::forward(const LayerCall& call, const TensorView& input) {
  if (busy_ && refuses_overlap_) {
    throw Error(call.label() + ": forward before the backward of the forward that came last");
  }
  busy_ = true;
  refresh(input_, input, call, "input");
  if (call.cu_seqlens.valid()) {
    refresh_static_input(context_, call, {"cu_seqlens", first_call_.cu_seqlens, replays_},
                         call.cu_seqlens);
  }
  keeper_.replay(forward_graph_, layer_execution(call, true), [&] {
    eager_saved_.clear();
    const Buffer output = body_.forward(call, {}, input_.slot, eager_saved_);
    context_.stream().copy(output_view_, output.view(), call.label());
  });
  ++replays_;
  return output_view_;
}

TensorView LocalRunner::backward(const LayerCall& call, const TensorView& grad_output) {
  if (!busy_ && refuses_overlap_) throw Error(call.label() + ": backward before its forward");
  busy_ = false;
  refresh(grad_output_, grad_output, call, "grad_output");
  keeper_.replay(backward_graph_, layer_execution(call, false), [&] {
    const Buffer grad_input = body_.backward(call, {}, grad_output_.slot, eager_saved_);
    context_.stream().copy(grad_input_view_, grad_input.view(), call.label());
  });
  // Host code of the captured body, the flag included, does not run at replay.
  if (!context_.fault(Fault::f14c_grad_added_flag_only_in_capture)) {
    body_.set_grad_added(call.layer, true);
  }
  return grad_input_view_;
}

void LocalRunner::destroy_graphs() {
  keeper_.destroy(backward_graph_);
  keeper_.destroy(forward_graph_);
}

void LocalRunner::release_memory() {
  saved_.clear();
  eager_saved_.clear();
  output_.reset();
  grad_input_.reset();
  input_.own.reset();
  grad_output_.own.reset();
}

}  // namespace cgconform::workloads
