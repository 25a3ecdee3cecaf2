#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/capture/capture_violations.hpp"
#include "workloads/capture/graph_ledger.hpp"
#include "workloads/capture/growth_faults.hpp"
#include "workloads/capture/layer_body.hpp"
#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// The events around one launch.
struct LaunchEvents {
  std::unique_ptr<Event> begin;
  std::unique_ptr<Event> end;
};

/// One captured graph that can be launched, with the slots its nodes write for the recorder.
struct CapturedGraph {
  std::unique_ptr<Graph> graph;
  std::unique_ptr<GraphExec> exec;
  GraphSlots slots;
  std::int32_t index = -1;  ///< into LegRecord::graphs
  std::vector<LaunchedCommunication> communications;
  GraphTimes times;
  std::vector<LaunchEvents> launches;  ///< of the launches whose time is taken
};

/// What a capture is told about the graph it makes.
struct CaptureRequest {
  std::string name;
  std::int32_t layer = -1;
  std::int32_t microbatch = -1;
  bool forward = true;
  bool wgrad = false;      ///< see GraphRecord
  std::string_view scope;  ///< empty: the plan's
  std::int32_t step = 0;
  CaptureMode mode = CaptureMode::thread_local_mode;
  PoolId pool = default_pool;
  const void* input = nullptr;  ///< see GraphRecord
  /// Launches that the same body made when it last ran eagerly.
  std::uint64_t eager_body_launches = 0;
};

/// Counts user objects that were made and not released. Thread-safe.
class ReleaseWatch {
 public:
  void made();
  void released();
  /// Waits until all are released, at most `deadline`: a runtime releases them in its own time.
  void wait(std::chrono::milliseconds deadline);

 private:
  std::mutex mutex_;
  std::condition_variable none_left_;
  std::int64_t left_ = 0;
};

/// Captures, audits, launches and destroys the graphs of a leg.
class GraphKeeper {
 public:
  GraphKeeper(LegContext& context, LayerBody& body);
  ~GraphKeeper();
  GraphKeeper(const GraphKeeper&) = delete;
  GraphKeeper& operator=(const GraphKeeper&) = delete;

  GraphLedger& ledger() { return ledger_; }
  GrowthFaults& growth() { return growth_; }
  /// Tensors that a capture must leave as they are; hashed before and after every window.
  void guard(std::string name, const TensorView& tensor) {
    guarded_.emplace_back(std::move(name), tensor);
  }
  /// Hash over the guarded tensors; 0 in a leg without instruments.
  std::uint64_t hash_guarded();

  /// Runs `body` under capture on the main stream and instantiates the graph. `hash_before` is that
  /// of the moment before the extra runs which belong to the graph's creation. A capture that fails
  /// is ended before the error leaves.
  void capture(CapturedGraph& target, const CaptureRequest& request, std::uint64_t hash_before,
               const std::function<void()>& body);
  /// The same in parts: work between the two calls is captured. `target` must stay where it is.
  void begin_capture(CapturedGraph& target, const CaptureRequest& request,
                     std::uint64_t hash_before);
  void end_capture();
  /// Ends and drops the open capture, where there is one; `status` is what ended it.
  void abandon_capture(ErrorCategory status);
  /// Enters the graph into the ledger once its inputs are known.
  void enter(CapturedGraph& graph, std::span<const TensorView> inputs);

  /// Launches one replay on the main stream, notes it as `execution`, and takes over what it
  /// recorded. `eager_body` is the code the graph was captured from.
  void replay(CapturedGraph& graph, ExecutionRecord execution,
              const std::function<void()>& eager_body);

  /// Notes one eager run of `body` and returns the launches it made. The device counts what has
  /// run, so it is idle before and after; in eager legs without instruments it is not, and the
  /// launches stay 0.
  std::uint64_t run_eagerly(ExecutionRecord execution, const std::function<void()>& body);

  /// Destroys the executable and then the graph. What memory of the graph is gone already stands in
  /// the record's teardown.
  void destroy(CapturedGraph& graph);

  PoolId create_pool(std::string name);
  std::span<const std::pair<std::string, PoolId>> pools() const { return pools_; }
  /// Notes the pools' statistics and what is still live in them, then gives back those in which
  /// nothing lives.
  void destroy_pools();
  /// Waits a moment for the user objects of destroyed graphs.
  void await_releases();
  /// Forgets graphs that were destroyed and what the leg's record holds of them.
  void forget_graphs();

 private:
  /// An open capture and all that watches it.
  struct Window;

  void prepare_window(CapturedGraph& target, const CaptureRequest& request,
                      std::uint64_t hash_before);
  void open_window();
  void close_window();
  /// Notes, audits and instantiates the graph that a window has left.
  void take_graph(Window& window);
  /// The ranks that run the layer together are about to do the same.
  void agree_on_layer(const ExecutionRecord& execution, const CapturedGraph* graph) const;
  /// Launches the graph between two events where the leg is timed by them.
  void launch(CapturedGraph& graph);
  std::string first_changed(std::uint64_t hash_before, std::uint64_t hash_after) const;
  /// Bytes of the pool that the nodes touch.
  std::int64_t bytes_in(PoolId pool, std::span<const GraphNode> nodes) const;
  void find_freed_host_records(const CapturedGraph& graph, std::int32_t step);

  LegContext& context_;
  LayerBody& body_;
  GraphLedger ledger_;
  CaptureViolations violations_;
  GrowthFaults growth_;
  std::shared_ptr<ReleaseWatch> releases_ = std::make_shared<ReleaseWatch>();
  std::vector<std::pair<std::string, TensorView>> guarded_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> guarded_hashes_;  ///< by their combination
  std::vector<std::pair<std::string, PoolId>> pools_;
  std::int32_t destroyed_ = 0;
  std::unique_ptr<Window> window_;
};

}  // namespace cgconform::workloads
