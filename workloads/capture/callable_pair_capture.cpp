#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "workloads/capture/capture_implementation.hpp"
#include "workloads/capture/coverage_faults.hpp"
#include "workloads/capture/extra_runs.hpp"
#include "workloads/capture/noted_layers.hpp"
#include "workloads/capture/static_input.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::uint8_t left_over_byte = 0x3F;  // finite and not zero in every floating-point type

/// All layers of the model as one callable, as torch.cuda.make_graphed_callables makes it: before
/// the first step its forward and its backward are warmed up on a side stream and captured, one
/// graph each; every training micro-batch replays the two. Embedding, loss and optimizer stay
/// outside. Validation and micro-batches of another shape run eagerly.
class CallablePairCapture final : public CaptureImplementation {
 public:
  CallablePairCapture(LegContext& context, StageModel& model, LayerBody& body, GraphKeeper& keeper)
      : context_(context),
        model_(model),
        body_(body),
        keeper_(keeper),
        layers_(body, keeper),
        coverage_(context),
        warmup_stream_(context.device().create_stream("graph warm-up")),
        chunk_(model.chunks().front()) {
    if (model.chunks().size() != 1) {
      throw InternalError("a pair of callables holds the layers of one model chunk");
    }
  }

  void begin_step(std::int32_t step) override {
    if (steps_begun_++ == coverage_.capture_delay()) create_graphs(step);
  }

  void run_iteration(const IterationCall& call, const IterationBody& body) override {
    context_.agree_on_launch({.name = launch_name(call)});
    body(BodyMode{});
  }

  TensorView forward(const LayerCall& call, const TensorView& input) override {
    if (!replays(call)) return layers_.forward(call, input);
    if (call.layer == chunk_.first_layer) replay_forward(call, input);
    return outputs_.at(place(call));
  }

  TensorView backward(const LayerCall& call, const TensorView& grad_output) override {
    if (!replays(call)) return layers_.backward(call, grad_output);
    if (place(call) + 1 == chunk_.layers.size()) replay_backward(call, grad_output);
    // Host code of the captured body, the flag included, does not run at replay.
    if (!context_.fault(Fault::f14c_grad_added_flag_only_in_capture)) {
      body_.set_grad_added(call.layer, true);
    }
    return grad_inputs_.at(place(call));
  }

  void add_wgrads(const LayerCall& call) override {
    if (!replays(call)) layers_.add_wgrads(call);
  }

  void release(std::int32_t microbatch, const LayerRange& layers) override {
    layers_.release(microbatch, layers);
  }

  void end_schedule_call(const IterationCall& call) override {
    if (call.mode == IterationMode::training && created_) coverage_.after_replayed_call();
  }

  PoolId iteration_pool() const override {
    return context_.plan.separate_pools ? default_pool : pool_;
  }
  bool captured() const override { return created_; }

  void destroy() override {
    layers_.clear();
    if (context_.fault(Fault::f32d_buffers_freed_before_graphs)) release_memory();
    keeper_.destroy(backward_graph_);
    keeper_.destroy(forward_graph_);
    release_memory();
    // Graphs that share a pool use the places of each other's slots: the slots go after the graphs.
    backward_graph_ = {};
    forward_graph_ = {};
    created_ = false;
  }

 private:
  /// What a run of a layer leaves.
  struct Held {
    Buffer output;
    SavedActivations saved;
    DelayedWgrads delayed;
    Buffer grad_input;
  };

  std::size_t place(const LayerCall& call) const {
    return static_cast<std::size_t>(call.layer - chunk_.first_layer);
  }

  bool replays(const LayerCall& call) const {
    return created_ && !call.validation && !call.partial && !coverage_.fast_path_lost();
  }

  static ExecutionRecord pair_execution(const LayerCall& call, bool forward) {
    return {.step = call.step, .microbatch = call.microbatch, .forward = forward};
  }

  void replay_forward(const LayerCall& call, const TensorView& input) {
    if (std::exchange(in_flight_, true)) {
      throw Error(call.label() + ": forward before the backward of the forward that came last");
    }
    refresh_static_input(context_, call, {"input", input_.view(), replays_}, input);
    if (call.cu_seqlens.valid()) {
      refresh_static_input(context_, call, {"cu_seqlens", body_.borders_slot(), replays_},
                           call.cu_seqlens);
    }
    keeper_.replay(forward_graph_, pair_execution(call, true), [&] {
      eager_ = held_layers();
      copy_all(outputs_, run_forward(eager_, {}, call));
    });
    ++replays_;
  }

  void replay_backward(const LayerCall& call, const TensorView& grad_output) {
    if (!std::exchange(in_flight_, false)) {
      throw Error(call.label() + ": backward before its forward");
    }
    refresh_static_input(context_, call, {"grad_output", grad_output_.view(), replays_},
                         grad_output);
    keeper_.replay(backward_graph_, pair_execution(call, false), [&] {
      copy_all(grad_inputs_, run_backward(eager_, {}, call));
      eager_.clear();
    });
  }

  void copy_all(const std::vector<TensorView>& to, const std::vector<TensorView>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      context_.stream().copy(to[i], from[i], "output of eager code in place of a replay");
    }
  }

  LayerCall call_of(LayerCall call, std::size_t place) const {
    call.module = chunk_.layers[place];
    call.layer = chunk_.first_layer + static_cast<std::int32_t>(place);
    return call;
  }

  std::vector<Held> held_layers() const { return std::vector<Held>(chunk_.layers.size()); }

  /// The outputs of all layers, in their order.
  std::vector<TensorView> run_forward(std::vector<Held>& layers, const BodyMode& mode,
                                      const LayerCall& call) {
    std::vector<TensorView> outputs;
    TensorView value = input_.view();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      Held& held = layers[i];
      held.saved.clear();
      held.output = body_.forward(call_of(call, i), mode, value, held.saved);
      value = held.output.view();
      outputs.push_back(value);
    }
    return outputs;
  }

  /// The gradients of the inputs of all layers, in their order. What is delayed is added here too:
  /// a callable has no graph for it alone.
  std::vector<TensorView> run_backward(std::vector<Held>& layers, const BodyMode& mode,
                                       const LayerCall& call) {
    std::vector<TensorView> grad_inputs(layers.size());
    TensorView grad = grad_output_.view();
    for (std::size_t i = layers.size(); i-- > 0;) {
      Held& held = layers[i];
      const LayerCall layer = call_of(call, i);
      held.delayed.clear();
      held.grad_input = body_.backward(layer, mode, grad, held.saved, &held.delayed);
      if (!held.delayed.left().empty()) body_.add_wgrads(layer, mode, held.delayed);
      grad = held.grad_input.view();
      grad_inputs[i] = grad;
    }
    return grad_inputs;
  }

  Buffer static_buffer(const char* label) {
    Buffer slot(context_.allocator(), context_.stream(), default_pool, context_.model_type(),
                context_.hidden_shape(), label);
    context_.stream().fill(slot.view(), left_over_byte, label);
    return slot;
  }

  void create_graphs(std::int32_t step) {
    context_.clock.enter(Phase::warmup);
    input_ = static_buffer("static input");
    grad_output_ = static_buffer("static grad_output");
    sample_ = {.step = step,
               .sequences = context_.cell.config.micro_batch_size,
               .valid_length = context_.cell.config.seq_length,
               .cu_seqlens = body_.borders_slot()};
    // Between steps gradients count for nothing; the capture has to leave them zero, and all other
    // state as it was.
    zero_gradients(context_, model_);
    const std::uint64_t hash_before = keeper_.hash_guarded();
    warm_up();
    zero_gradients(context_, model_);
    capture(hash_before);
    created_ = true;
  }

  void warm_up() {
    StateOverExtraRuns state(context_);
    {
      StreamScope side(context_, *warmup_stream_);
      for (std::int32_t run = 0; run < context_.plan.warmup_steps; ++run) {
        warm_up_once(run + 1 == context_.plan.warmup_steps);
      }
      side.join();
    }
    state.restore();
  }

  void warm_up_once(bool measured) {
    std::vector<Held> layers = held_layers();
    forward_launches_ = extra_run(context_, measured, [&] { run_forward(layers, {}, sample_); });
    backward_launches_ = extra_run(context_, measured, [&] { run_backward(layers, {}, sample_); });
  }

  PoolId pool_for(const char* name) {
    if (pool_ == default_pool || context_.plan.separate_pools) {
      pool_ = keeper_.create_pool(context_.plan.separate_pools ? fmt::format("graph {}", name)
                                                               : "graph");
      keeper_.ledger().open_captures(pool_);
    }
    return pool_;
  }

  CaptureRequest request(bool forward, PoolId pool) const {
    return {.name = forward ? "layers forward" : "layers backward",
            .forward = forward,
            .step = sample_.step,
            .mode = CaptureMode::global,
            .pool = pool,
            .input = forward ? input_.view().data : nullptr,
            .eager_body_launches = forward ? forward_launches_ : backward_launches_};
  }

  void agree_on_capture(const CaptureRequest& request) const {
    context_.agree_on_launch({.name = fmt::format("step {} {}", request.step, request.name),
                              .kind = LaunchIntent::Kind::capture});
  }

  void capture(std::uint64_t hash_before) {
    const CaptureRequest forward = request(true, pool_for("forward"));
    agree_on_capture(forward);
    captured_ = held_layers();
    keeper_.capture(forward_graph_, forward, hash_before, [&] {
      outputs_ = run_forward(captured_, {.pool = forward.pool, .capturing = true}, sample_);
    });
    std::vector<TensorView> inputs{input_.view()};
    if (sample_.cu_seqlens.valid()) inputs.push_back(sample_.cu_seqlens);
    keeper_.enter(forward_graph_, inputs);

    inputs.push_back(grad_output_.view());
    for (const Held& held : captured_) {
      inputs.push_back(held.output.view());
      for (const auto& [name, view] : held.saved.views()) inputs.push_back(view);
    }
    const CaptureRequest backward = request(false, pool_for("backward"));
    agree_on_capture(backward);
    keeper_.capture(backward_graph_, backward, hash_before, [&] {
      grad_inputs_ = run_backward(captured_, {.pool = backward.pool, .capturing = true}, sample_);
    });
    keeper_.enter(backward_graph_, inputs);
    // Graphs captured later are replayed later, so they may take this memory.
    for (Held& held : captured_) {
      held.delayed.clear();
      held.saved.clear();
    }
    keeper_.ledger().close_captures();
    body_.faults().after_last_capture(backward.pool);
  }

  void release_memory() {
    captured_.clear();
    eager_.clear();
    input_.reset();
    grad_output_.reset();
  }

  LegContext& context_;
  StageModel& model_;
  LayerBody& body_;
  GraphKeeper& keeper_;
  NotedLayers layers_;          ///< that run outside of the graphs
  std::vector<Held> captured_;  ///< in the graphs' memory
  std::vector<Held> eager_;     ///< of a forward that sabotage ran eagerly
  CoverageFaults coverage_;
  std::unique_ptr<Stream> warmup_stream_;
  const ModelChunk& chunk_;
  LayerCall sample_;  ///< without its layer
  Buffer input_;
  Buffer grad_output_;
  std::vector<TensorView> outputs_;      ///< by layer of the chunk
  std::vector<TensorView> grad_inputs_;  ///< by layer of the chunk
  CapturedGraph forward_graph_;
  CapturedGraph backward_graph_;
  PoolId pool_ = default_pool;
  std::int32_t steps_begun_ = 0;
  std::uint64_t forward_launches_ = 0;
  std::uint64_t backward_launches_ = 0;
  std::uint64_t replays_ = 0;
  bool in_flight_ = false;  ///< a forward whose backward has not run
  bool created_ = false;
};

}  // namespace

std::unique_ptr<CaptureImplementation> make_callable_pair_capture(LegContext& context,
                                                                  StageModel& model,
                                                                  LayerBody& body,
                                                                  GraphKeeper& keeper) {
  return std::make_unique<CallablePairCapture>(context, model, body, keeper);
}

}  // namespace cgconform::workloads
