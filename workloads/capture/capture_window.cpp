#include "workloads/capture/capture_window.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {
namespace {

/// A capture on one stream; ends it, and drops what it holds, where an error leaves the window.
class OpenCapture {
 public:
  OpenCapture(Stream& stream, CaptureMode mode) : stream_(stream) { stream_.begin_capture(mode); }
  ~OpenCapture() {
    if (!open_) return;
    try {
      stream_.end_capture();
    } catch (const DeviceError&) {
      // The error that closed the window is on its way; that the capture is broken is its echo.
      return;
    }
  }
  OpenCapture(const OpenCapture&) = delete;
  OpenCapture& operator=(const OpenCapture&) = delete;

  std::unique_ptr<Graph> end() {
    open_ = false;
    return stream_.end_capture();
  }

 private:
  Stream& stream_;
  bool open_ = true;
};

/// Counts the device calls of a window and keeps the first that failed.
class CallAudit {
 public:
  CallAudit(Device& device, CaptureAudit& audit) : device_(device) {
    device_.set_call_observer([&audit](const CallRecord& call) {
      ++audit.calls;
      if (call.call == pageable_upload_call) ++audit.pageable_uploads;
      if (call.category == ErrorCategory::success ||
          audit.first_failure != ErrorCategory::success) {
        return;
      }
      audit.first_failure = call.category;
      audit.first_failed_call = std::string(call.call);
    });
  }
  ~CallAudit() { device_.set_call_observer({}); }
  CallAudit(const CallAudit&) = delete;
  CallAudit& operator=(const CallAudit&) = delete;

 private:
  Device& device_;
};

/// Adds the host time of its life to a number of milliseconds.
class HostTimer {
 public:
  explicit HostTimer(double& milliseconds) : milliseconds_(milliseconds) {}
  ~HostTimer() {
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin_;
    milliseconds_ += spent.count();
  }
  HostTimer(const HostTimer&) = delete;
  HostTimer& operator=(const HostTimer&) = delete;

 private:
  double& milliseconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

GraphSize size_of(const Graph& graph) {
  const GraphCensus census = graph.census();
  return {.nodes = census.total(), .edges = census.edges};
}

GraphTimes times_of(const CapturedGraph& graph) {
  GraphTimes times = graph.times;
  for (const LaunchEvents& events : graph.launches) {
    try {
      times.launches.push_back(events.end->elapsed_since(*events.begin));
    } catch (const DeviceError&) {
      // A leg that ended early leaves launches that never completed; its error is on record.
      break;
    }
  }
  return times;
}

}  // namespace

void ReleaseWatch::made() {
  const std::lock_guard lock(mutex_);
  ++left_;
}

void ReleaseWatch::released() {
  const std::lock_guard lock(mutex_);
  if (--left_ == 0) none_left_.notify_all();
}

void ReleaseWatch::wait(std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  none_left_.wait_for(lock, deadline, [this] { return left_ == 0; });
}

GraphKeeper::GraphKeeper(LegContext& context, LayerBody& body)
    : context_(context), body_(body), ledger_(context), violations_(context), growth_(context) {
  guard("random state", context.rng.states);
  ledger_.add_long_lived(context.rng.states);
  ledger_.add_long_lived(body.zeros());
}

std::uint64_t GraphKeeper::hash_guarded() {
  if (!context_.recorder.instrumented()) return 0;
  const auto count = static_cast<std::int64_t>(guarded_.size());
  Stream& stream = context_.stream();
  const Buffer cells(context_.allocator(), stream, default_pool, DType::uint64, Shape{count},
                     "capture hashes");
  for (std::int64_t i = 0; i < count; ++i) {
    checksum(stream, rows_of(cells.view(), i, 1), guarded_[static_cast<std::size_t>(i)].second,
             "hash before and after capture");
  }
  std::vector<std::uint64_t> values(guarded_.size());
  stream.download(values.data(), cells.view());
  std::uint64_t combined = 0xCBF29CE484222325ULL;
  for (const std::uint64_t value : values) combined = (combined ^ value) * 0x100000001B3ULL;
  guarded_hashes_[combined] = std::move(values);
  return combined;
}

std::string GraphKeeper::first_changed(std::uint64_t hash_before, std::uint64_t hash_after) const {
  const auto before = guarded_hashes_.find(hash_before);
  const auto after = guarded_hashes_.find(hash_after);
  if (before == guarded_hashes_.end() || after == guarded_hashes_.end()) return {};
  for (std::size_t i = 0; i < guarded_.size(); ++i) {
    if (before->second.at(i) != after->second.at(i)) return guarded_[i].first;
  }
  return {};
}

struct GraphKeeper::Window {
  Window(LegContext& context, CaptureAudit& audited, CapturedGraph& captured,
         const CaptureRequest& asked, std::uint64_t hash)
      : audit(audited),
        target(captured),
        request(asked),
        hash_before(hash),
        before(context.device().counters()),
        calls(context.device(), audited) {}

  CaptureAudit& audit;
  CapturedGraph& target;
  CaptureRequest request;
  std::uint64_t hash_before;
  LaunchCounters before;
  CallAudit calls;
  std::optional<GraphRecording> recording;
  std::optional<HostTimer> timer;
  std::optional<OpenCapture> capture;
};

GraphKeeper::~GraphKeeper() = default;

void GraphKeeper::capture(CapturedGraph& target, const CaptureRequest& request,
                          std::uint64_t hash_before, const std::function<void()>& body) {
  prepare_window(target, request, hash_before);
  try {
    if (context_.sabotage(Sabotage::capture_executes_at_once)) body();
    open_window();
    body();
    close_window();
  } catch (const DeviceError& error) {
    abandon_capture(error.category());
    throw;
  } catch (...) {
    abandon_capture(ErrorCategory::success);
    throw;
  }
}

void GraphKeeper::begin_capture(CapturedGraph& target, const CaptureRequest& request,
                                std::uint64_t hash_before) {
  prepare_window(target, request, hash_before);
  open_window();
}

void GraphKeeper::end_capture() {
  close_window();
}

void GraphKeeper::abandon_capture(ErrorCategory status) {
  if (!window_) return;
  window_->audit.end_status = status;
  window_.reset();
}

void GraphKeeper::prepare_window(CapturedGraph& target, const CaptureRequest& request,
                                 std::uint64_t hash_before) {
  LegRecord& record = context_.record;
  // What came before is the former phase's, its errors too.
  context_.device().synchronize();
  context_.clock.enter(Phase::capture);
  target.index = static_cast<std::int32_t>(record.graphs.size());
  record.captures.push_back({.graph = request.name,
                             .hash_before = hash_before,
                             .eager_body_launches = request.eager_body_launches});
  body_.faults().before_capture(request.pool);
  violations_.prepare();
  context_.recorder.prepare_graph(target.slots);
  context_.device().synchronize();
  window_ =
      std::make_unique<Window>(context_, record.captures.back(), target, request, hash_before);
}

void GraphKeeper::open_window() {
  Window& window = *window_;
  window.recording.emplace(context_.recorder, window.target.slots, window.request.pool);
  window.timer.emplace(window.target.times.capture);
  window.capture.emplace(context_.stream(), window.request.mode);
  body_.faults().at_capture_start();
}

void GraphKeeper::close_window() {
  Window& window = *window_;
  violations_.commit();
  growth_.in_capture(window.request.pool);
  window.target.graph = window.capture->end();
  window.timer.reset();
  window.recording.reset();
  const std::unique_ptr<Window> closed = std::move(window_);
  take_graph(*closed);
}

void GraphKeeper::take_graph(Window& window) {
  CapturedGraph& target = window.target;
  const CaptureRequest& request = window.request;
  CaptureAudit& audit = window.audit;
  LegRecord& record = context_.record;
  context_.device().set_call_observer({});
  context_.device().synchronize();
  const LaunchCounters after = context_.device().counters();
  audit.eager_launches_inside = after.eager_launches - window.before.eager_launches;
  audit.graph_nodes_run_inside = after.graph_nodes_run - window.before.graph_nodes_run;
  audit.hash_after = hash_guarded();
  audit.changed = first_changed(window.hash_before, audit.hash_after);
  audit.nodes_ran_inside = context_.recorder.has_run(target.slots);

  // As a library that captures keeps its own record of the capture with the graph.
  const std::shared_ptr<void> user_object =
      context_.device().create_user_object([watch = releases_] { watch->released(); });
  releases_->made();
  target.graph->retain(user_object);
  growth_.after_capture(*target.graph, user_object);

  const std::span<const GraphNode> nodes = target.graph->nodes();
  target.communications = communications_of(nodes);
  record.graphs.push_back(
      {.name = request.name,
       .scope = request.scope.empty() ? context_.plan.scope : std::string(request.scope),
       .layer = request.layer,
       .microbatch = request.microbatch,
       .forward = request.forward,
       .wgrad = request.wgrad,
       .capture_order = target.index,
       .capture_step = request.step,
       .nodes = {nodes.begin(), nodes.end()},
       .input = request.input,
       .pool_bytes = bytes_in(request.pool, nodes),
       .size = size_of(*target.graph)});
  if (context_.recorder.instrumented()) record.graphs.back().dot = target.graph->dot();
  context_.clock.enter(Phase::instantiate);
  {
    const HostTimer timer(target.times.instantiate);
    target.exec = target.graph->instantiate();
  }
  if (!context_.request.timed) return;
  target.times.upload = 0.0;
  const HostTimer timer(target.times.upload);
  target.exec->upload(context_.stream());
  context_.stream().synchronize();
}

void GraphKeeper::launch(CapturedGraph& graph) {
  Stream& stream = context_.stream();
  const bool first = graph.exec->launches() == 0;
  if (context_.recorder.instrumented() || !(context_.request.timed || first)) {
    graph.exec->launch(stream);
    return;
  }
  LaunchEvents& events = graph.launches.emplace_back();
  events.begin = context_.device().create_event(EventKind::timing);
  events.end = context_.device().create_event(EventKind::timing);
  stream.record(*events.begin);
  graph.exec->launch(stream);
  stream.record(*events.end);
}

void GraphKeeper::agree_on_layer(const ExecutionRecord& execution,
                                 const CapturedGraph* graph) const {
  // Whole iterations and the optimizer, which have no micro-batch, are agreed on elsewhere.
  if (execution.microbatch < 0) return;
  const std::string layers =
      execution.layer < 0 ? std::string("layers") : fmt::format("layer {}", execution.layer);
  LaunchIntent intent{.name = fmt::format("{}step {} mb {} {}{}{} {}",
                                          execution.validation ? "validation " : "", execution.step,
                                          execution.microbatch, layers,
                                          execution.scope.empty() ? "" : " ", execution.scope,
                                          pass_name(execution.forward, execution.wgrad))};
  if (graph != nullptr) {
    intent.kind = LaunchIntent::Kind::replay;
    intent.replay = graph->exec->launches();
    intent.communications = graph->communications;
  }
  context_.agree_on_layer(intent);
}

void GraphKeeper::enter(CapturedGraph& graph, std::span<const TensorView> inputs) {
  if (const auto& table = body_.faults().table_in_pool()) {
    TensorView view = body_.zeros();
    view.data = table->data;
    ledger_.add_long_lived(view, table->generation);
  }
  ledger_.enter(graph.index, inputs);
}

void GraphKeeper::replay(CapturedGraph& graph, ExecutionRecord execution,
                         const std::function<void()>& eager_body) {
  context_.clock.enter(Phase::replay);
  context_.pass(ReturnPoint::before_replay);
  const bool instrumented = context_.recorder.instrumented();
  agree_on_layer(execution, &graph);
  find_freed_host_records(graph, execution.step);
  ledger_.check_before_launch(graph.index, execution.step);
  body_.faults().before_launch();
  if (instrumented) context_.device().synchronize();
  const LaunchCounters before = context_.device().counters();
  const std::uint64_t host_before = body_.host_executions();
  if (context_.sabotage(Sabotage::replay_runs_eager_code)) {
    eager_body();
  } else if (!context_.sabotage(Sabotage::replay_does_nothing) &&
             !(context_.request.timed && context_.sabotage(Sabotage::timed_replay_does_nothing))) {
    launch(graph);
  }
  context_.pass(ReturnPoint::in_flight);
  if (instrumented) context_.device().synchronize();
  const LaunchCounters after = context_.device().counters();
  execution.replayed = true;
  execution.graph = graph.index;
  execution.eager_launches = instrumented ? after.eager_launches - before.eager_launches : 0;
  execution.graph_launches = after.graph_launches - before.graph_launches;
  execution.graph_nodes_run = instrumented ? after.graph_nodes_run - before.graph_nodes_run : 0;
  execution.host_executions = body_.host_executions() - host_before;
  if (!context_.sabotage(Sabotage::replay_runs_eager_code)) {
    context_.recorder.collect(graph.slots, execution.step, execution.microbatch);
  }
  context_.record.executions.push_back(execution);
}

std::uint64_t GraphKeeper::run_eagerly(ExecutionRecord execution,
                                       const std::function<void()>& body) {
  agree_on_layer(execution, nullptr);
  const bool measured = context_.request.kind == LegKind::graph || context_.recorder.instrumented();
  if (measured) context_.device().settle_counters();
  const LaunchCounters before = context_.device().counters();
  const std::uint64_t host_before = body_.host_executions();
  body();
  if (measured) {
    context_.device().settle_counters();
    const LaunchCounters after = context_.device().counters();
    execution.eager_launches = after.eager_launches - before.eager_launches;
  }
  execution.host_executions = body_.host_executions() - host_before;
  context_.record.executions.push_back(execution);
  return execution.eager_launches;
}

void GraphKeeper::destroy(CapturedGraph& graph) {
  if (graph.graph) {
    const auto index = static_cast<std::size_t>(graph.index);
    // A set that is destroyed late may have been forgotten.
    if (index < context_.record.graphs.size()) {
      GraphRecord& record = context_.record.graphs[index];
      if (graph.exec) record.launches = graph.exec->launches();
      record.times = times_of(graph);
      record.destroy_order = destroyed_++;
      ledger_.check_before_destruction(graph.index);
    }
    growth_.before_destruction(graph.exec);
    graph.exec.reset();
    graph.graph.reset();
  }
  graph.launches.clear();
}

PoolId GraphKeeper::create_pool(std::string name) {
  const PoolId pool = context_.allocator().create_pool(name);
  pools_.emplace_back(std::move(name), pool);
  return pool;
}

void GraphKeeper::destroy_pools() {
  std::vector<std::pair<std::string, PoolId>> left;
  context_.record.live_bytes_after_teardown = 0;
  for (const auto& [name, pool] : pools_) {
    const PoolStatistics statistics = context_.allocator().statistics(pool);
    context_.record.pools[name] = statistics;
    context_.record.live_bytes_after_teardown += statistics.active_bytes;
    if (statistics.live_blocks == 0) {
      context_.allocator().destroy_pool(pool);
    } else {
      left.emplace_back(name, pool);
    }
  }
  pools_ = std::move(left);
}

void GraphKeeper::await_releases() {
  constexpr std::chrono::milliseconds moment{50};
  releases_->wait(moment);
}

void GraphKeeper::forget_graphs() {
  ledger_.forget_graphs();
  LegRecord& record = context_.record;
  record.graphs.clear();
  record.captures.clear();
  record.executions.clear();
  record.address_findings.clear();
  record.edge_findings.clear();
}

std::int64_t GraphKeeper::bytes_in(PoolId pool, std::span<const GraphNode> nodes) const {
  std::vector<MemoryRange> touched;
  for (const GraphNode& node : nodes) {
    for (const Operand& operand : node.operands) {
      if (!operand.tensor.valid()) continue;
      const auto* begin = static_cast<const std::byte*>(operand.tensor.data);
      touched.push_back({begin, begin + operand.tensor.bytes()});
    }
  }
  std::sort(touched.begin(), touched.end(), [](const MemoryRange& a, const MemoryRange& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::int64_t total = 0;
  const std::byte* covered = nullptr;
  const std::byte* looked_up = nullptr;
  bool in_pool = false;
  for (const auto& [first, end] : touched) {
    if (std::exchange(looked_up, first) != first) {
      in_pool = context_.allocator().look_up(first).pool == pool;
    }
    if (!in_pool) continue;
    const std::byte* begin = first;
    if (covered != nullptr) begin = std::max(begin, covered);
    if (end > begin) total += end - begin;
    covered = covered == nullptr ? end : std::max(covered, end);
  }
  return total;
}

void GraphKeeper::find_freed_host_records(const CapturedGraph& graph, std::int32_t step) {
  const auto& records = body_.faults().host_records();
  if (records.empty() || !context_.recorder.instrumented()) return;
  context_.stream().synchronize();
  if (std::none_of(records.begin(), records.end(), [](const auto& r) { return r->freed.load(); })) {
    return;
  }
  const std::vector<GraphNode>& nodes =
      context_.record.graphs.at(static_cast<std::size_t>(graph.index)).nodes;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].kind != NodeKind::host ||
        nodes[node].label != CaptureFaults::host_record_label) {
      continue;
    }
    context_.record.address_findings.push_back({.graph = graph.index,
                                                .node = static_cast<std::int32_t>(node),
                                                .op = "host_function",
                                                .operand = "host record",
                                                .step = step,
                                                .state = AddressState::freed,
                                                .label = nodes[node].label,
                                                .reason = "record of a host callback was freed"});
  }
}

}  // namespace cgconform::workloads
