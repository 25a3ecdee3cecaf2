#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "workloads/capture/capture_agreement.hpp"
#include "workloads/capture/capture_implementation.hpp"
#include "workloads/capture/coverage_faults.hpp"
#include "workloads/capture/eager_layers.hpp"
#include "workloads/capture/uniformity_faults.hpp"

namespace cgconform::workloads {
namespace {

/// `full_iteration`, as the FullCudaGraphWrapper does it: the forwards and backwards of all
/// micro-batches, pipeline transfers included, are one graph; validation has a graph of its own.
/// Call number `warmup_steps` of a mode, counted from 0, captures and then replays.
class FullIterationCapture final : public CaptureImplementation {
 public:
  FullIterationCapture(LegContext& context, LayerBody& body, GraphKeeper& keeper)
      : context_(context),
        body_(body),
        keeper_(keeper),
        layers_(body),
        agreement_(context),
        coverage_(context),
        uniformity_(context) {}

  void run_iteration(const IterationCall& call, const IterationBody& body) override {
    State& state = states_[static_cast<std::size_t>(call.mode)];
    const LaunchIntent::Kind kind = call.partial ? LaunchIntent::Kind::eager : next_kind(state);
    context_.agree_on_launch({.name = launch_name(call), .kind = kind});
    // What cannot be captured is no call on the way to the capture.
    if (!call.partial) ++state.calls;
    if (kind == LaunchIntent::Kind::eager) {
      context_.clock.enter(Phase::warmup);
      uniformity_.wait_for_captured_event();
      state.eager_launches =
          keeper_.run_eagerly(execution(call), [&] { run_body(BodyMode{}, body); });
      return;
    }
    if (kind == LaunchIntent::Kind::capture) capture(state, call, body);
    context_.agree_on_launch({.name = launch_name(call),
                              .kind = LaunchIntent::Kind::replay,
                              .replay = state.replays,
                              .communications = state.communications});
    keeper_.replay(state.graph, execution(call), [&] { run_body({}, body); });
    ++state.replays;
    coverage_.after_replayed_call();
  }

  TensorView forward(const LayerCall& call, const TensorView& input) override {
    return layers_.forward(call, input);
  }
  TensorView backward(const LayerCall& call, const TensorView& grad_output) override {
    return layers_.backward(call, grad_output);
  }
  void add_wgrads(const LayerCall& call) override {
    if (layers_.has_wgrads(call)) layers_.add_wgrads(call);
  }
  void release(std::int32_t microbatch, const LayerRange& layers) override {
    layers_.release(microbatch, layers);
  }
  void end_schedule_call(const IterationCall&) override {}

  bool needs_static_batches() const override { return true; }
  std::uint64_t iteration_replays(IterationMode mode) const override {
    return states_[static_cast<std::size_t>(mode)].replays;
  }
  PoolId iteration_pool() const override { return shared_pool_; }
  bool captured() const override {
    return states_[static_cast<std::size_t>(IterationMode::training)].graph.exec != nullptr;
  }

  void destroy() override {
    layers_.clear();
    for (auto state = states_.rbegin(); state != states_.rend(); ++state) {
      keeper_.destroy(state->graph);
    }
    // Graphs that share a pool use the places of each other's slots: the slots go after the graphs.
    for (State& state : states_) state.graph = {};
  }

 private:
  struct State {
    CapturedGraph graph;
    std::int32_t calls = 0;
    std::uint64_t replays = 0;
    std::uint64_t eager_launches = 0;
    std::vector<LaunchedCommunication> communications;  ///< of the graph
  };

  /// What becomes of the mode's next call.
  LaunchIntent::Kind next_kind(const State& state) const {
    const std::int32_t captured_call =
        context_.plan.warmup_steps + coverage_.capture_delay() + uniformity_.missed_calls();
    if (state.calls == captured_call && !uniformity_.stays_eager()) {
      return LaunchIntent::Kind::capture;
    }
    const bool replays =
        state.graph.exec && !coverage_.fast_path_lost() && !uniformity_.leaves_graph(state.replays);
    return replays ? LaunchIntent::Kind::replay : LaunchIntent::Kind::eager;
  }

  static ExecutionRecord execution(const IterationCall& call) {
    return {.step = call.step, .validation = call.mode == IterationMode::validation};
  }

  void run_body(const BodyMode& mode, const IterationBody& body) {
    layers_.set_mode(mode);
    body(mode);
    layers_.clear();
  }

  PoolId pool_for(std::string_view mode) {
    if (context_.plan.separate_pools) return keeper_.create_pool(fmt::format("graph {}", mode));
    if (shared_pool_ == default_pool) shared_pool_ = keeper_.create_pool("graph");
    return shared_pool_;
  }

  void capture(State& state, const IterationCall& call, const IterationBody& body) {
    const bool training = call.mode == IterationMode::training;
    const std::string_view mode = training ? "training" : "validation";
    agreement_.ready();
    const PoolId pool = pool_for(mode);
    keeper_.ledger().open_captures(pool);
    context_.device().synchronize();
    const CaptureRequest request{.name = fmt::format("iteration {}", mode),
                                 .step = call.step,
                                 .mode = CaptureMode::thread_local_mode,
                                 .pool = pool,
                                 .eager_body_launches = state.eager_launches};
    const std::uint64_t hash_before = keeper_.hash_guarded();
    try {
      keeper_.capture(state.graph, request, hash_before, [&] {
        run_body({.pool = pool, .capturing = true}, body);
        uniformity_.record_captured_event();
      });
    } catch (const Error& error) {
      layers_.clear();
      agreement_.failed(error.what());
      throw;
    }
    keeper_.enter(state.graph, {});
    state.communications = communications_of(state.graph.graph->nodes());
    keeper_.ledger().close_captures();
    body_.faults().after_last_capture(pool);
    agreement_.captured();
  }

  LegContext& context_;
  LayerBody& body_;
  GraphKeeper& keeper_;
  EagerLayers layers_;
  CaptureAgreement agreement_;
  CoverageFaults coverage_;
  UniformityFaults uniformity_;
  std::array<State, 2> states_;
  PoolId shared_pool_ = default_pool;
};

}  // namespace

std::unique_ptr<CaptureImplementation> make_full_iteration_capture(LegContext& context,
                                                                   LayerBody& body,
                                                                   GraphKeeper& keeper) {
  return std::make_unique<FullIterationCapture>(context, body, keeper);
}

}  // namespace cgconform::workloads
