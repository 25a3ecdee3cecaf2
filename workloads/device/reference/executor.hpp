#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "workloads/device/progress.hpp"
#include "workloads/device/reference/stream_state.hpp"

namespace cgconform::workloads::reference {

/// Runs the work of all streams of a device, one item at a time: the order is the streams' and
/// their waits'. One thread of its own runs whatever is enqueued; a host thread that waits helps,
/// so that a short burst of work followed by a synchronisation wakes no thread.
///
/// A communication that waits for peers blocks its stream (or its branch of a graph) only.
/// Errors: what an op throws becomes its stream's error; later items of the stream are skipped
/// until the error is taken, and waits on later events of the stream spread it.
class Executor {
 public:
  explicit Executor(ProgressSink* progress);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  /// Ends after the item that runs now and drops the others; waits then return at once.
  void stop();

  /// Appends an item and returns its sequence number in the stream. Thread-safe.
  std::uint64_t enqueue(const std::shared_ptr<StreamState>& stream, StreamItem item);
  /// Sequence number of the last item enqueued.
  std::uint64_t last_enqueued(const StreamState& stream) const;
  bool completed(const StreamState& stream, std::uint64_t sequence) const;
  /// Blocks until the stream completed `sequence` items, running work meanwhile.
  void wait(const StreamState& stream, std::uint64_t sequence);
  /// Removes and returns the stream's error.
  std::optional<AsyncError> take_error(StreamState& stream);
  /// Time and error of a record that was reached.
  EventRecord reached(const EventRecord& record) const;
  /// A message arrived: communications may be able to finish. Thread-safe.
  void notify_arrival();
  /// True on a thread that is inside an op or host function just now.
  bool executing_here() const { return executing_thread_.load() == std::this_thread::get_id(); }

  std::uint64_t eager_launches() const { return eager_launches_.load(std::memory_order_relaxed); }
  std::uint64_t graph_nodes_run() const { return graph_nodes_run_.load(std::memory_order_relaxed); }
  void reset_counters();

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Waiter {
    const StreamState* stream = nullptr;
    std::uint64_t sequence = 0;
    bool reached = false;
  };

  void thread_main();
  /// Runs work until nothing is left, or `waiter` is reached. The caller holds the token.
  void run(Lock& lock, const Waiter* waiter);
  void advance(Lock& lock, const std::shared_ptr<StreamState>& stream);
  enum class Step : std::uint8_t { completed, blocked };
  Step step(Lock& lock, const std::shared_ptr<StreamState>& stream);
  Step step_command(Lock& lock, const std::shared_ptr<StreamState>& stream, CommandItem& item);
  Step step_graph(Lock& lock, const std::shared_ptr<StreamState>& stream, GraphItem& item);
  Step step_wait(const std::shared_ptr<StreamState>& stream, const WaitItem& item);
  void complete_head(StreamState& stream);
  void schedule(std::shared_ptr<StreamState> stream);
  /// Makes blocked communications runnable again where a message arrived or a deadline passed.
  void revive_in_flight();
  std::chrono::steady_clock::time_point earliest_deadline() const;
  bool has_work() const { return !runnable_.empty() || !in_flight_.empty(); }
  void release_token();
  /// Destroys what an item holds without the lock.
  template <typename Held>
  void dispose(Lock& lock, Held& held);
  /// Runs `body` unlocked; what it throws becomes the stream's error.
  template <typename Body, typename Label>
  void guarded(Lock& lock, StreamState& stream, Body&& body, Label&& label);

  ProgressSink* progress_;
  mutable std::mutex mutex_;
  std::condition_variable idle_;     ///< the own thread waits here for work
  std::condition_variable arrival_;  ///< the token's holder waits here for messages
  std::condition_variable done_;     ///< host threads wait here while another runs the work
  std::deque<std::shared_ptr<StreamState>> runnable_;
  std::vector<std::shared_ptr<StreamState>> in_flight_;
  std::vector<Waiter*> waiters_;
  bool token_taken_ = false;
  bool holder_waits_ = false;
  bool own_thread_idle_ = false;
  bool arrived_ = false;
  bool stop_ = false;
  std::atomic<std::thread::id> executing_thread_;
  std::atomic<std::uint64_t> eager_launches_{0};
  std::atomic<std::uint64_t> graph_nodes_run_{0};
  std::thread thread_;
};

}  // namespace cgconform::workloads::reference
