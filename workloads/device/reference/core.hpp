#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "workloads/device/device.hpp"
#include "workloads/device/live_objects.hpp"
#include "workloads/device/reference/capture_rules.hpp"
#include "workloads/device/reference/capture_session.hpp"
#include "workloads/device/reference/executor.hpp"

namespace cgconform::workloads::reference {

/// A place in a stream's queue.
struct QueuePoint {
  std::shared_ptr<StreamState> stream;
  std::uint64_t sequence = 0;
};

/// What all objects of one reference device share: the executor, the open captures and their
/// rules, counters and the call observer.
class Core {
 public:
  explicit Core(const ReferenceDeviceOptions& options);

  Executor& executor() { return executor_; }
  LiveObjects& live_objects() { return live_objects_; }
  const std::shared_ptr<StreamState>& legacy_stream() const { return legacy_; }

  /// Runs one device call: refuses it inside host functions, counts it where it fails, and tells
  /// the observer.
  template <typename Body>
  auto call(std::string_view name, std::string_view label, Body&& body) {
    refuse_inside_host_function(name);
    try {
      if constexpr (std::is_void_v<decltype(body())>) {
        body();
        observe(name, label, ErrorCategory::success);
      } else {
        auto result = body();
        observe(name, label, ErrorCategory::success);
        return result;
      }
    } catch (const DeviceError& error) {
      failed_calls_.fetch_add(1, std::memory_order_relaxed);
      observe(name, label, error.category());
      throw;
    }
  }

  std::shared_ptr<StreamState> create_stream(std::string name, StreamKind kind, bool legacy);
  /// Streams that were made and not destroyed, without the legacy one.
  std::int64_t live_streams();
  void forget_stream(const std::shared_ptr<StreamState>& stream);
  void forget_communicator(const CommunicatorCore& core);

  // Calls of streams, events, graphs and sources; each follows the capture rules.
  void enqueue(const std::shared_ptr<StreamState>& stream, Command command,
               std::string_view call_name);
  /// In the stream's order, or at once where it captures; never captured, never counted.
  void enqueue_uncounted(const std::shared_ptr<StreamState>& stream, Command command);
  /// `last` orders the launches of one executable, on whatever streams.
  void launch_graph(const std::shared_ptr<StreamState>& stream, GraphItem item, QueuePoint& last);
  void synchronize(const std::shared_ptr<StreamState>& stream);
  bool query(const std::shared_ptr<StreamState>& stream);
  void synchronize_device();
  /// Waits for what is queued now, captures or not; leaves errors where they are.
  void wait_until_idle();
  void begin_capture(const std::shared_ptr<StreamState>& stream, CaptureMode mode);
  std::shared_ptr<const GraphBody> end_capture(const std::shared_ptr<StreamState>& stream);
  /// Number of the capture that the stream takes part in, 0 where it does not capture.
  std::uint64_t capture_number(const std::shared_ptr<StreamState>& stream);
  CaptureStatus capture_status(const std::shared_ptr<StreamState>& stream);
  CaptureMode exchange_thread_mode(CaptureMode mode);

  /// What an event was last recorded in. Guarded by the core's mutex.
  struct EventState {
    EventKind kind = EventKind::ordering;
    std::shared_ptr<EventRecord> record;  ///< outside captures
    std::shared_ptr<CaptureSession> capture;
    std::vector<std::int32_t> tail;  ///< nodes before the record, in `capture`
  };
  void record(const std::shared_ptr<StreamState>& stream, EventState& event);
  void wait(const std::shared_ptr<StreamState>& stream, EventState& event);
  bool query_event(EventState& event);
  void synchronize_event(EventState& event);
  double elapsed(EventState& start, EventState& end);

  /// Throws the rule's error where the calling thread may not make an unsafe call now, and
  /// invalidates the captures that forbid it.
  void require_safe(CaptureViolation violation, std::string_view call_name);

  void set_observer(CallObserver observer);
  LaunchCounters counters() const;
  void reset_counters();
  void count_graph_launch() { graph_launches_.fetch_add(1, std::memory_order_relaxed); }
  void set_replay_seed(std::uint64_t seed) { replay_seed_.store(seed); }
  std::uint64_t replay_seed() const { return replay_seed_.load(); }
  std::uint64_t next_graph_number() { return ++graphs_; }

 private:
  using Sessions = std::vector<std::shared_ptr<CaptureSession>>;

  void refuse_inside_host_function(std::string_view name) const;
  void observe(std::string_view name, std::string_view label, ErrorCategory category);
  [[noreturn]] static void refuse(CaptureViolation violation, std::string_view call_name);
  /// The stream's open capture, or null. Requires the mutex.
  static CaptureSession* open_capture(const StreamState& stream);
  /// Refuses the legacy stream while a blocking stream captures. Requires the mutex.
  void require_legacy_usable(const StreamState& stream, std::string_view call_name);
  void require_safe_locked(CaptureViolation violation, std::string_view call_name);
  void end_session(CaptureSession& session);
  /// The category of an event whose capture is over, or of an open one. Requires the mutex.
  void refuse_captured_event(EventState& event, CaptureViolation violation,
                             std::string_view call_name);
  /// Orders a new item with the legacy stream as CUDA does. Requires the mutex.
  void order_with_legacy(const std::shared_ptr<StreamState>& stream);
  /// Uses of one communicator run in the order of the calls, on whatever streams.
  void order_communicator(const std::shared_ptr<StreamState>& stream, const CommunicatorCore& core);
  void wait_for(const std::shared_ptr<StreamState>& stream, const QueuePoint& point);
  /// Ends of all queues that may have work, those of destroyed streams included.
  std::vector<QueuePoint> queue_ends();
  std::uint64_t push(const std::shared_ptr<StreamState>& stream, StreamItem item);
  void wait_and_report(const std::shared_ptr<StreamState>& stream, std::uint64_t sequence,
                       std::string_view call_name);

  LiveObjects live_objects_;
  std::mutex mutex_;
  Sessions sessions_;
  std::map<std::thread::id, CaptureMode> thread_modes_;  ///< threads that exchanged theirs
  std::vector<std::shared_ptr<StreamState>> streams_;
  std::vector<QueuePoint> draining_;  ///< ends of destroyed streams whose work still runs
  std::shared_ptr<StreamState> legacy_;
  std::map<const CommunicatorCore*, QueuePoint> last_communication_;
  std::shared_ptr<const CallObserver> observer_;
  std::atomic<bool> observed_{false};
  std::atomic<std::uint64_t> captured_nodes_{0};
  std::atomic<std::uint64_t> graph_launches_{0};
  std::atomic<std::uint64_t> failed_calls_{0};
  std::atomic<std::uint64_t> replay_seed_;
  std::atomic<std::uint64_t> graphs_{0};
  std::uint64_t captures_ = 0;
  std::uint64_t streams_created_ = 0;
  Executor executor_;  // last: its thread ends before the rest goes
};

}  // namespace cgconform::workloads::reference
