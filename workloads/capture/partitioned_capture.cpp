#include <array>
#include <deque>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "workloads/capture/capture_agreement.hpp"
#include "workloads/capture/capture_implementation.hpp"
#include "workloads/capture/eager_layers.hpp"

namespace cgconform::workloads {
namespace {

/// An iteration as several graphs, parted where the host reads a value, as compilers do that break
/// a graph at what cannot be captured. Call number `warmup_steps`
/// of a mode, counted from 0, captures: at a read the open part ends and the next one begins. A
/// replay launches the parts in turn and does the reads between them. All parts share one pool:
/// they replay in one order.
class PartitionedCapture final : public CaptureImplementation {
 public:
  PartitionedCapture(LegContext& context, LayerBody& body, GraphKeeper& keeper)
      : context_(context), body_(body), keeper_(keeper), layers_(body), agreement_(context) {}

  void run_iteration(const IterationCall& call, const IterationBody& body) override {
    State& state = states_[static_cast<std::size_t>(call.mode)];
    const LaunchIntent::Kind kind = call.partial ? LaunchIntent::Kind::eager : next_kind(state);
    context_.agree_on_launch({.name = launch_name(call), .kind = kind});
    if (call.partial) {
      keeper_.run_eagerly(execution(call), [&] { run_body(BodyMode{}, body); });
      return;
    }
    ++state.calls;
    if (kind == LaunchIntent::Kind::eager) {
      warm_up(state, call, body);
      return;
    }
    if (kind == LaunchIntent::Kind::capture) capture(state, call, body);
    context_.agree_on_launch({.name = launch_name(call),
                              .kind = LaunchIntent::Kind::replay,
                              .replay = state.replays,
                              .communications = state.communications});
    for (Part& part : state.parts) {
      const bool first = &part == &state.parts.front();
      keeper_.replay(part.graph, execution(call), [&] {
        if (first) run_body({}, body);
      });
      // F11d: host code runs at capture only.
      if (part.read && !context_.fault(Fault::f11d_metric_updated_inside)) part.read();
    }
    ++state.replays;
  }

  void read_on_host(const std::function<void()>& read) override {
    if (open_ != nullptr) {
      close_part();
      open_->parts.back().read = read;
      open_part(keeper_.hash_guarded());
      return;
    }
    count_part();
    read();
    counted_to_ = launches();
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
    return !states_[static_cast<std::size_t>(IterationMode::training)].parts.empty();
  }

  void destroy() override {
    layers_.clear();
    for (auto state = states_.rbegin(); state != states_.rend(); ++state) {
      for (auto part = state->parts.rbegin(); part != state->parts.rend(); ++part) {
        keeper_.destroy(part->graph);
      }
    }
    // Graphs that share a pool use the places of each other's slots: the slots go after the graphs.
    for (State& state : states_) state.parts.clear();
  }

 private:
  struct Part {
    CapturedGraph graph;
    std::function<void()> read;  ///< that follows the part; empty after the last one
  };
  struct State {
    std::deque<Part> parts;
    PoolId pool = default_pool;
    std::vector<TensorView> written;  ///< by the parts so far, which later ones may read
    std::int32_t calls = 0;
    std::uint64_t replays = 0;
    std::vector<std::uint64_t> eager_launches;          ///< of each part in the last eager run
    std::vector<LaunchedCommunication> communications;  ///< of all parts
  };

  /// What becomes of the mode's next call.
  LaunchIntent::Kind next_kind(const State& state) const {
    if (state.calls < context_.plan.warmup_steps) return LaunchIntent::Kind::eager;
    return state.parts.empty() ? LaunchIntent::Kind::capture : LaunchIntent::Kind::replay;
  }

  static ExecutionRecord execution(const IterationCall& call) {
    return {.step = call.step, .validation = call.mode == IterationMode::validation};
  }

  void run_body(const BodyMode& mode, const IterationBody& body) {
    layers_.set_mode(mode);
    body(mode);
    layers_.clear();
  }

  void warm_up(State& state, const IterationCall& call, const IterationBody& body) {
    context_.clock.enter(Phase::warmup);
    state.eager_launches.clear();
    warmed_ = &state;
    keeper_.run_eagerly(execution(call), [&] {
      counted_to_ = launches();
      run_body(BodyMode{}, body);
      count_part();
    });
    warmed_ = nullptr;
  }

  /// Launches so far; waits for them.
  std::uint64_t launches() {
    if (warmed_ == nullptr) return 0;
    context_.device().synchronize();
    return context_.device().counters().eager_launches;
  }
  void count_part() {
    if (warmed_ == nullptr) return;
    warmed_->eager_launches.push_back(launches() - counted_to_);
  }

  PoolId pool_for(IterationMode mode) {
    if (context_.plan.separate_pools) {
      return keeper_.create_pool(mode == IterationMode::training ? "graph training"
                                                                 : "graph validation");
    }
    if (shared_pool_ == default_pool) shared_pool_ = keeper_.create_pool("graph");
    return shared_pool_;
  }

  void capture(State& state, const IterationCall& call, const IterationBody& body) {
    agreement_.ready();
    state.pool = pool_for(call.mode);
    call_ = call;
    keeper_.ledger().open_captures(state.pool);
    context_.device().synchronize();
    const std::uint64_t hash_before = keeper_.hash_guarded();
    if (context_.sabotage(Sabotage::capture_executes_at_once)) run_body({}, body);
    open_ = &state;
    try {
      open_part(hash_before);
      run_body({.pool = state.pool, .capturing = true}, body);
      close_part();
    } catch (const DeviceError& error) {
      abandon(error.category());
      agreement_.failed(error.what());
      throw;
    } catch (const std::exception& error) {
      abandon(ErrorCategory::success);
      agreement_.failed(error.what());
      throw;
    }
    open_ = nullptr;
    keeper_.ledger().close_captures();
    body_.faults().after_last_capture(state.pool);
    agreement_.captured();
  }

  void abandon(ErrorCategory status) {
    keeper_.abandon_capture(status);
    layers_.clear();
    open_ = nullptr;
  }

  void open_part(std::uint64_t hash_before) {
    const std::size_t number = open_->parts.size();
    const std::string_view mode = call_.mode == IterationMode::training ? "training" : "validation";
    open_->parts.emplace_back();
    const bool counted = number < open_->eager_launches.size();
    keeper_.begin_capture(open_->parts.back().graph,
                          {.name = fmt::format("iteration {} part {}", mode, number),
                           .step = call_.step,
                           .mode = CaptureMode::thread_local_mode,
                           .pool = open_->pool,
                           .eager_body_launches = counted ? open_->eager_launches[number] : 0},
                          hash_before);
  }

  void close_part() {
    keeper_.end_capture();
    CapturedGraph& graph = open_->parts.back().graph;
    keeper_.enter(graph, open_->written);
    for (LaunchedCommunication& communication : communications_of(graph.graph->nodes())) {
      open_->communications.push_back(std::move(communication));
    }
    for (const GraphNode& node : graph.graph->nodes()) {
      for (const Operand& operand : node.operands) {
        if (operand.access != Access::read) open_->written.push_back(operand.tensor);
      }
    }
  }

  LegContext& context_;
  LayerBody& body_;
  GraphKeeper& keeper_;
  EagerLayers layers_;
  CaptureAgreement agreement_;
  std::array<State, 2> states_;
  State* open_ = nullptr;    ///< whose parts are being captured
  State* warmed_ = nullptr;  ///< whose parts are being counted
  std::uint64_t counted_to_ = 0;
  IterationCall call_;  ///< that captures
  PoolId shared_pool_ = default_pool;
};

}  // namespace

std::unique_ptr<CaptureImplementation> make_partitioned_capture(LegContext& context,
                                                                LayerBody& body,
                                                                GraphKeeper& keeper) {
  return std::make_unique<PartitionedCapture>(context, body, keeper);
}

}  // namespace cgconform::workloads
