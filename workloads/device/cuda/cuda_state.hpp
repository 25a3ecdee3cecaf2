#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "workloads/device/cuda/capture_record.hpp"
#include "workloads/device/cuda/cuda_handles.hpp"
#include "workloads/device/device.hpp"
#include "workloads/device/live_objects.hpp"

namespace cgconform::workloads::cuda {

/// What the runtime says of a stream's capture.
struct CaptureInfo {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  std::uint64_t id = 0;
  cudaGraph_t graph = nullptr;
};
CaptureInfo capture_info(cudaStream_t stream);

/// State that a device shares with its streams, graphs and communicators, which may outlive it.
class CudaState {
 public:
  explicit CudaState(ProgressSink* progress) : progress_(progress) {}

  LaunchCounters counters() const;
  void reset_counters();
  void count_eager_launch() { ++eager_launches_; }
  void count_captured_nodes(std::uint64_t nodes) { captured_nodes_ += nodes; }
  void count_graph_launch(std::uint64_t nodes) {
    ++graph_launches_;
    graph_nodes_run_ += nodes;
  }

  LiveObjects& live_objects() { return live_objects_; }

  void capture_began() { ++open_captures_; }
  void capture_ended() { --open_captures_; }
  /// True while any stream may capture: only then does a call have to ask its own.
  bool captures() const { return open_captures_ > 0; }

  std::uint64_t next_stream_id() { return ++last_stream_id_; }
  /// A stream made with these flags, new or one that was given back: to make and destroy one takes
  /// as long as to launch two kernels, and every leg has several.
  StreamHandle take_stream(unsigned flags);
  /// Keeps the stream for `take_stream` where it is idle and nothing captures; destroys it else.
  void give_back_stream(StreamHandle stream, unsigned flags);
  /// Streams that `synchronize` of the device waits for.
  void add_stream(cudaStream_t stream);
  void remove_stream(cudaStream_t stream);
  /// Blocks until all work on the device ended, watching the communicators.
  void await_device();

  void set_observer(CallObserver observer) { observer_ = std::move(observer); }

  /// Runs `call` and reports its outcome to the observer and the counters; rethrows what it threw.
  template <typename Call>
  auto observed(std::string_view name, std::string_view label, Call&& call) {
    if (progress_ != nullptr && !label.empty()) progress_->start_operation(label);
    try {
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        tell(name, label, ErrorCategory::success);
      } else {
        auto result = call();
        tell(name, label, ErrorCategory::success);
        return result;
      }
    } catch (const DeviceError& error) {
      ++failed_calls_;
      tell(name, label, error.category());
      throw;
    }
  }

  /// Communicators are watched while the host waits for the device.
  void watch(const std::shared_ptr<CommunicatorLink>& communicator);
  /// Throws the first asynchronous error of a communicator.
  void throw_communicator_errors() const;
  /// Blocks until `ended` says so. Where ranks depend on each other this looks at the communicators
  /// meanwhile: an asynchronous error, or the end of the shortest timeout, aborts them all, so that
  /// their kernels end, and throws. `wait` is the plain blocking call.
  void await(const std::function<bool()>& ended, const std::function<void()>& wait);

  /// The record of an active capture, found by the runtime's capture id; made when the id is new.
  std::shared_ptr<CaptureRecord> capture_record(const CaptureInfo& info);
  /// Forgets a capture that ended.
  std::shared_ptr<CaptureRecord> take_capture_record(std::uint64_t capture_id);

 private:
  void tell(std::string_view name, std::string_view label, ErrorCategory category) {
    if (observer_) observer_(CallRecord{name, label, category});
  }

  ProgressSink* progress_;
  CallObserver observer_;
  LiveObjects live_objects_;
  std::atomic<std::uint64_t> eager_launches_{0};
  std::atomic<std::uint64_t> captured_nodes_{0};
  std::atomic<std::uint64_t> graph_launches_{0};
  std::atomic<std::uint64_t> graph_nodes_run_{0};
  std::atomic<std::uint64_t> failed_calls_{0};
  std::atomic<std::uint64_t> last_stream_id_{0};
  std::atomic<std::int64_t> open_captures_{0};
  std::vector<std::shared_ptr<CommunicatorLink>> live_communicators() const;

  std::mutex streams_mutex_;
  std::set<cudaStream_t> streams_;
  std::multimap<unsigned, StreamHandle> idle_streams_;  ///< by their flags
  mutable std::mutex communicators_mutex_;
  std::vector<std::weak_ptr<CommunicatorLink>> communicators_;
  std::mutex captures_mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<CaptureRecord>> captures_;
};

/// Of a query's status: true once the work ended, in whatever way; the blocking call says how.
bool has_ended(cudaError_t status);

/// Number of nodes of a graph under capture.
std::size_t node_count(cudaGraph_t graph);

}  // namespace cgconform::workloads::cuda
