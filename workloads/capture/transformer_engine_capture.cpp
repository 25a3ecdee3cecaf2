#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "matrix/virtual_stages.hpp"
#include "workloads/capture/capture_implementation.hpp"
#include "workloads/capture/coverage_faults.hpp"
#include "workloads/capture/deferred_gradients.hpp"
#include "workloads/capture/extra_runs.hpp"
#include "workloads/capture/layer_pieces.hpp"
#include "workloads/capture/noted_layers.hpp"
#include "workloads/capture/transformer_engine_callable.hpp"
#include "workloads/capture/transformer_engine_plan.hpp"
#include "workloads/capture/wgrad_faults.hpp"
#include "workloads/training/parameter_gather.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::uint8_t left_over_byte = 0x3F;  // finite and not zero in every floating-point type

/// `transformer_engine`, as TECudaGraphHelper and make_graphed_callables do it: between two steps,
/// when the warm-up steps have run, the forward and backward of every layer, or of the modules the
/// scope names, are captured ahead of time in the order in which the pipeline schedule runs them.
/// Validation, and what the scope leaves out, run eagerly.
class TransformerEngineCapture final : public CaptureImplementation {
 public:
  TransformerEngineCapture(LegContext& context, StageModel& model, LayerBody& body,
                           GraphKeeper& keeper)
      : context_(context),
        model_(model),
        body_(body),
        keeper_(keeper),
        layers_(body, keeper),
        deferred_(context),
        wgrad_faults_(context),
        coverage_(context),
        warmup_stream_(context.device().create_stream("graph warm-up")) {
    for (std::size_t chunk = 0; chunk < model.chunks().size(); ++chunk) add_chunk(chunk);
    if (context.plan.captures_anything()) make_plan();
  }

  void begin_step(std::int32_t step) override {
    if (plan_ && steps_begun_++ == context_.plan.warmup_steps + coverage_.capture_delay()) {
      create_graphs(step);
    }
  }

  void run_iteration(const IterationCall& call, const IterationBody& body) override {
    context_.agree_on_launch({.name = launch_name(call)});
    body(BodyMode{});
  }

  TensorView forward(const LayerCall& call, const TensorView& input) override {
    if (!replays(call)) return layers_.forward(call, input);
    TensorView value = input;
    for (const LayerPiece& piece : pieces(call)) {
      const LayerCall part = piece.call(call);
      value = piece.captured ? callable(call).forward(part, value) : layers_.forward(part, value);
    }
    return value;
  }

  TensorView backward(const LayerCall& call, const TensorView& grad_output) override {
    if (!replays(call)) return layers_.backward(call, grad_output);
    TensorView grad = grad_output;
    const std::vector<LayerPiece>& all = pieces(call);
    for (auto piece = all.rbegin(); piece != all.rend(); ++piece) {
      const LayerCall part = piece->call(call);
      if (piece->captured) {
        GraphedCallable& graphs = callable(part);
        grad = graphs.backward(part, grad);
        if (!graphs.has_wgrads()) deferred_.hand_out(part);
      } else {
        grad = layers_.backward(part, grad);
      }
    }
    return grad;
  }

  void add_wgrads(const LayerCall& call) override {
    if (!replays(call)) {
      layers_.add_wgrads(call);
      return;
    }
    const std::vector<LayerPiece>& all = pieces(call);
    for (auto piece = all.rbegin(); piece != all.rend(); ++piece) {
      const LayerCall part = piece->call(call);
      if (piece->captured) {
        GraphedCallable& graphs = callable(part);
        if (!graphs.has_wgrads()) continue;
        wgrad_faults_.run([&graphs, part] { graphs.add_wgrads(part); });
        graphs.note_gradients_added(part);
        deferred_.hand_out(part);
      } else {
        layers_.add_wgrads(part);
      }
    }
  }

  void release(std::int32_t microbatch, const LayerRange& layers) override {
    layers_.release(microbatch, layers);
  }

  void end_schedule_call(const IterationCall& call) override {
    if (call.mode != IterationMode::training) return;
    wgrad_faults_.finish();
    deferred_.finish();
    if (created_) coverage_.after_replayed_call();
  }

  bool captured() const override { return created_; }
  bool returns_lasting_values() const override { return !created_ && layers_.keeps_outputs(); }

  void destroy() override {
    layers_.clear();
    deferred_.clear();
    if (context_.fault(Fault::f32d_buffers_freed_before_graphs)) release_memory();
    for (auto callable = callables_.rbegin(); callable != callables_.rend(); ++callable) {
      callable->destroy_graphs();
    }
    release_memory();
    callables_.clear();
  }

 private:
  /// A layer of the stage: its chunk, and its place in the chunk.
  struct Place {
    std::size_t chunk = 0;
    std::size_t position = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };

  void add_chunk(std::size_t index) {
    const ModelChunk& chunk = model_.chunks()[index];
    std::vector<std::vector<LayerPiece>>& layers = pieces_.emplace_back();
    std::vector<Place>& graphed = graphed_.emplace_back();
    for (std::size_t position = 0; position < chunk.layers.size(); ++position) {
      layers.push_back(pieces_of(*chunk.layers[position],
                                 chunk.first_layer + static_cast<std::int32_t>(position),
                                 context_.plan));
      const auto& pieces = layers.back();
      if (std::any_of(pieces.begin(), pieces.end(), [](const auto& p) { return p.captured; })) {
        graphed.push_back({index, position});
      }
    }
  }

  void make_plan() {
    std::vector<Place> all;
    LayerOrder by_layers;
    for (const std::vector<Place>& graphed : graphed_) {
      by_layers.layers_per_chunk.push_back(static_cast<std::int32_t>(graphed.size()));
      all.insert(all.end(), graphed.begin(), graphed.end());
    }
    if (all.empty()) return;
    for (const Place& place : all) by_layers.wgrads.push_back(delays_wgrads(place));
    const auto& wgrads = by_layers.wgrads;
    if (std::find(wgrads.begin(), wgrads.end(), true) == wgrads.end()) {
      plan_ = std::make_unique<CallablePlan>(planned_order(), by_layers.layers_per_chunk);
      return;
    }
    // An order that names weight gradients has one layer a chunk.
    graphed_.clear();
    for (const Place& place : all) graphed_.push_back({place});
    plan_ = std::make_unique<CallablePlan>(layer_order(planned_order(), by_layers),
                                           std::vector<std::int32_t>(all.size(), 1));
  }

  bool delays_wgrads(const Place& place) const {
    return body_.delays_wgrads() && captured_piece(place).module->can_delay_wgrads();
  }

  CaptureLayout layout() const {
    const matrix::TrainingConfig& config = context_.cell.config;
    const Communicator* gang = context_.environment.gang;
    return {.pipeline_stages = config.pipeline_model_parallel_size,
            .rank = gang == nullptr ? 0 : matrix::pipeline_stage_of(context_.cell, gang->rank()),
            .chunks = matrix::chunks_a_stage(context_.cell),
            .microbatches = config.num_microbatches,
            .microbatch_group = config.microbatch_group_size_per_vp_stage};
  }

  std::vector<std::int32_t> planned_order() const {
    const CaptureLayout wanted = layout();
    if (!context_.fault(Fault::f06a_pool_planned_for_other_order)) {
      return capture_order(wanted).order;
    }
    std::vector<std::int32_t> order;
    for (std::int32_t microbatch = 0; microbatch < wanted.microbatches; ++microbatch) {
      for (std::int32_t chunk = 1; chunk <= wanted.chunks; ++chunk) order.push_back(chunk);
      for (std::int32_t chunk = wanted.chunks; chunk >= 1; --chunk) order.push_back(-chunk);
    }
    return order;
  }

  Place place(const LayerCall& call) const {
    const std::span<const ModelChunk> chunks = model_.chunks();
    std::size_t chunk = 0;
    // Chunks lie in the order of their layers.
    while (chunk + 1 < chunks.size() && call.layer >= chunks[chunk + 1].first_layer) ++chunk;
    return {chunk, static_cast<std::size_t>(call.layer - chunks[chunk].first_layer)};
  }

  const std::vector<LayerPiece>& pieces_at(const Place& place) const {
    return pieces_.at(place.chunk).at(place.position);
  }
  const std::vector<LayerPiece>& pieces(const LayerCall& call) const {
    return pieces_at(place(call));
  }

  bool replays(const LayerCall& call) const {
    return created_ && !call.validation && !call.partial && !coverage_.leaves_out(call);
  }

  GraphedCallable& callable(const LayerCall& call) {
    // F04a: the first micro-batch's graphs serve all that are in flight.
    const std::int32_t captured =
        context_.fault(Fault::f04a_shared_output_slot) ? 1 : plan_->microbatches();
    const Place wanted = place(call);
    for (std::size_t chunk = 0; chunk < graphed_.size(); ++chunk) {
      const std::vector<Place>& graphed = graphed_[chunk];
      const auto found = std::find(graphed.begin(), graphed.end(), wanted);
      if (found == graphed.end()) continue;
      return callables_.at(plan_->index(static_cast<std::int32_t>(chunk),
                                        call.microbatch % captured,
                                        static_cast<std::int32_t>(found - graphed.begin())));
    }
    throw InternalError(call.label() + ": a layer without a callable");
  }

  void release_memory() {
    for (GraphedCallable& callable : callables_) callable.release_memory();
    inputs_.clear();
    grad_outputs_.clear();
  }

  void create_graphs(std::int32_t step) {
    context_.clock.enter(Phase::warmup);
    make_callables(step);
    // Between steps gradients count for nothing; the capture has to leave them zero, and all other
    // state as it was.
    zero_gradients(context_, model_);
    const std::uint64_t hash_before = keeper_.hash_guarded();
    warm_up();
    zero_gradients(context_, model_);
    capture(step, hash_before);
    created_ = true;
  }

  Buffer static_buffer(const char* label) {
    return Buffer(context_.allocator(), context_.stream(), default_pool, context_.model_type(),
                  context_.hidden_shape(), label);
  }

  void make_callables(std::int32_t step) {
    for (std::int32_t set = 0; set < plan_->input_set_count(); ++set) {
      inputs_.push_back(static_buffer("static input"));
      context_.stream().fill(inputs_.back().view(), 0, "sample input");
    }
    for (std::size_t chunk = 0; chunk < graphed_.size(); ++chunk) {
      for (std::int32_t microbatch = 0; microbatch < plan_->microbatches(); ++microbatch) {
        for (const Place& place : graphed_[chunk]) {
          const auto set = static_cast<std::size_t>(plan_->input_sets()[callables_.size()]);
          const LayerCall sample = sample_call(step, microbatch, place);
          callables_.emplace_back(context_, body_, keeper_, sample, inputs_.at(set).view(),
                                  grad_slot(*sample.module));
          callables_.back().set_hooks(hooks(sample.layer));
        }
      }
    }
  }

  /// Gradients of outputs that have one shape share one slot, over all backward graphs.
  TensorView grad_slot(const Layer& module) {
    Buffer& slot = grad_outputs_[module.grad_output_bytes()];
    if (!slot.valid()) {
      const std::int64_t bytes = module.grad_output_bytes();
      slot = bytes == 0 ? static_buffer("static grad_output")
                        : Buffer(context_.allocator(), context_.stream(), default_pool,
                                 DType::uint8, Shape{bytes}, "static grad_output");
      context_.stream().fill(slot.view(), left_over_byte, "sample gradient");
    }
    return slot.view();
  }

  const LayerPiece& captured_piece(const Place& place) const {
    const std::vector<LayerPiece>& all = pieces_at(place);
    return *std::find_if(all.begin(), all.end(),
                         [](const LayerPiece& piece) { return piece.captured; });
  }

  LayerCall sample_call(std::int32_t step, std::int32_t microbatch, const Place& place) {
    const ModelChunk& chunk = model_.chunks()[place.chunk];
    return captured_piece(place).call(
        {.layer = chunk.first_layer + static_cast<std::int32_t>(place.position),
         .step = step,
         .microbatch = microbatch,
         .cu_seqlens = body_.borders_slot()});
  }

  /// Where the optimizer's parameters are gathered while layers run, a layer waits for its own.
  std::vector<std::function<void()>> hooks(std::int32_t layer) {
    const matrix::TrainingConfig& config = context_.cell.config;
    if (!config.use_distributed_optimizer || !config.overlap_param_gather) return {};
    return {[this, layer] { context_.gather->before_layer(layer); }};
  }

  /// Visits the callables of a pass: layers upwards in forward, downwards in backward.
  template <typename Visit>
  void for_each_callable(const OrderedPass& pass, const Visit& visit) {
    const std::int32_t count = plan_->layers(pass.chunk);
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t layer = pass.forward ? i : count - 1 - i;
      visit(callables_.at(plan_->index(pass.chunk, pass.microbatch, layer)));
    }
  }

  void warm_up() {
    StateOverExtraRuns state(context_);
    {
      StreamScope side(context_, *warmup_stream_);
      const std::int32_t runs = inner_warmups(
          context_.plan.warmup_steps, context_.cell.config.num_microbatches, plan_->microbatches());
      for (std::int32_t run = 0; run < runs; ++run) warm_up_once(run + 1 == runs);
      side.join();
    }
    state.restore();
  }

  void warm_up_once(bool measured) {
    for (const OrderedPass& pass : plan_->passes()) {
      for_each_callable(pass, [&](GraphedCallable& callable) {
        if (pass.forward) {
          callable.warm_up_forward(measured);
        } else if (pass.wgrad) {
          callable.warm_up_wgrads(measured);
        } else {
          callable.warm_up_backward(measured);
        }
      });
    }
  }

  /// F06c: the input slot of the forward after the given one in the order.
  TensorView prefetched_by(const GraphedCallable& callable) {
    TensorView next;
    if (!context_.fault(Fault::f06c_prefetch_for_next_entry)) return next;
    bool passed = false;
    for (const OrderedPass& pass : plan_->passes()) {
      if (!pass.forward) continue;
      for_each_callable(pass, [&](GraphedCallable& candidate) {
        if (passed && next.data == nullptr) next = candidate.input();
        passed = passed || &candidate == &callable;
      });
    }
    return next;
  }

  void capture(std::int32_t step, std::uint64_t hash_before) {
    CallableCapture target{.step = step, .hash_before = hash_before};
    bool pool_is_open = false;
    const auto enter_pool = [&] {
      if (pool_is_open && !context_.plan.separate_pools) return;
      target.pool = keeper_.create_pool(context_.plan.separate_pools
                                            ? fmt::format("graph {}", context_.record.graphs.size())
                                            : "graph");
      keeper_.ledger().open_captures(target.pool);
      pool_is_open = true;
    };
    GraphedCallable* sent = nullptr;  // of the last backward pass, whose gradient leaves the stage
    for (const OrderedPass& pass : plan_->passes()) {
      GraphedCallable* above = nullptr;
      for_each_callable(pass, [&](GraphedCallable& callable) {
        enter_pool();
        if (pass.forward) {
          target.prefetched = prefetched_by(callable);
          callable.capture_forward(target);
          return;
        }
        if (pass.wgrad) {
          callable.capture_wgrads(target);
          return;
        }
        callable.capture_backward(target);
        if (above != nullptr) above->give_back_grad_input();
        above = &callable;
      });
      if (above == nullptr) continue;
      // By the end of a chunk's backward the gradient sent after the one before has arrived.
      if (sent != nullptr) sent->give_back_grad_input();
      sent = above;
    }
    keeper_.ledger().close_captures();
    body_.faults().after_last_capture(target.pool);
  }

  LegContext& context_;
  StageModel& model_;
  LayerBody& body_;
  GraphKeeper& keeper_;
  NotedLayers layers_;
  DeferredGradients deferred_;
  WgradFaults wgrad_faults_;
  std::int32_t steps_begun_ = 0;
  CoverageFaults coverage_;
  std::unique_ptr<Stream> warmup_stream_;
  std::vector<std::vector<std::vector<LayerPiece>>> pieces_;  ///< by chunk and layer of the chunk
  std::vector<std::vector<Place>> graphed_;      ///< by chunk of the plan: layers with callables
  std::unique_ptr<CallablePlan> plan_;           ///< null where this stage captures nothing
  std::vector<Buffer> inputs_;                   ///< static input sets
  std::map<std::int64_t, Buffer> grad_outputs_;  ///< by the bytes of bundles; 0 for hidden states
  std::deque<GraphedCallable> callables_;        ///< by place
  bool created_ = false;
};

}  // namespace

std::unique_ptr<CaptureImplementation> make_transformer_engine_capture(LegContext& context,
                                                                       StageModel& model,
                                                                       LayerBody& body,
                                                                       GraphKeeper& keeper) {
  return std::make_unique<TransformerEngineCapture>(context, model, body, keeper);
}

}  // namespace cgconform::workloads
