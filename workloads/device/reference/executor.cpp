#include "workloads/device/reference/executor.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

namespace cgconform::workloads::reference {
namespace {

AsyncError describe_failure(std::string_view label) {
  try {
    throw;
  } catch (const DeviceError& error) {
    return {error.category(), fmt::format("'{}' failed: {}", label, error.what())};
  } catch (const std::exception& error) {
    return {ErrorCategory::launch_failure, fmt::format("'{}' failed: {}", label, error.what())};
  } catch (...) {
    return {ErrorCategory::launch_failure, fmt::format("'{}' failed", label)};
  }
}

}  // namespace

Executor::Executor(ProgressSink* progress)
    : progress_(progress), thread_([this] { thread_main(); }) {}

Executor::~Executor() {
  stop();
}

void Executor::stop() {
  {
    const Lock lock(mutex_);
    if (stop_) return;
    stop_ = true;
  }
  idle_.notify_all();
  arrival_.notify_all();
  done_.notify_all();
  thread_.join();
  // Queued items hold streams and streams hold items; break the cycles.
  std::vector<std::shared_ptr<StreamState>> left(runnable_.begin(), runnable_.end());
  left.insert(left.end(), in_flight_.begin(), in_flight_.end());
  for (std::size_t index = 0; index < left.size(); ++index) {
    for (auto& [sequence, waiting] : left[index]->waiters) left.push_back(waiting);
    left[index]->waiters.clear();
    left[index]->items.clear();
    left[index]->run.reset();
    left[index]->communication.reset();
  }
}

std::uint64_t Executor::enqueue(const std::shared_ptr<StreamState>& stream, StreamItem item) {
  const Lock lock(mutex_);
  stream->items.push_back(std::move(item));
  stream->longest = std::max(stream->longest, stream->items.size());
  const std::uint64_t sequence = ++stream->enqueued;
  if (!stream->scheduled) {
    schedule(stream);
    if (token_taken_) {
      if (holder_waits_) arrival_.notify_one();
    } else if (own_thread_idle_) {
      own_thread_idle_ = false;  // woken once, not for every item until it runs
      idle_.notify_one();
    }
  }
  return sequence;
}

std::uint64_t Executor::last_enqueued(const StreamState& stream) const {
  const Lock lock(mutex_);
  return stream.enqueued;
}

bool Executor::completed(const StreamState& stream, std::uint64_t sequence) const {
  const Lock lock(mutex_);
  return stream.completed >= sequence;
}

void Executor::wait(const StreamState& stream, std::uint64_t sequence) {
  Lock lock(mutex_);
  if (stream.completed >= sequence) return;
  Waiter waiter{&stream, sequence};
  waiters_.push_back(&waiter);
  while (!waiter.reached && !stop_) {
    if (!token_taken_ && has_work()) {
      token_taken_ = true;
      run(lock, &waiter);
      release_token();
    } else {
      done_.wait(lock);
    }
  }
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &waiter));
}

std::optional<AsyncError> Executor::take_error(StreamState& stream) {
  const Lock lock(mutex_);
  return std::exchange(stream.error, std::nullopt);
}

EventRecord Executor::reached(const EventRecord& record) const {
  const Lock lock(mutex_);
  return record;
}

void Executor::notify_arrival() {
  const Lock lock(mutex_);
  arrived_ = true;
  if (holder_waits_) arrival_.notify_one();
}

void Executor::reset_counters() {
  eager_launches_.store(0, std::memory_order_relaxed);
  graph_nodes_run_.store(0, std::memory_order_relaxed);
}

void Executor::thread_main() {
  Lock lock(mutex_);
  while (!stop_) {
    if (token_taken_ || !has_work()) {
      own_thread_idle_ = true;
      idle_.wait(lock);
      own_thread_idle_ = false;
      continue;
    }
    token_taken_ = true;
    run(lock, nullptr);
    release_token();
  }
}

void Executor::release_token() {
  token_taken_ = false;
  if (!waiters_.empty()) done_.notify_all();
  if (has_work() && own_thread_idle_) {
    own_thread_idle_ = false;
    idle_.notify_one();
  }
}

void Executor::run(Lock& lock, const Waiter* waiter) {
  while (!stop_ && (waiter == nullptr || !waiter->reached)) {
    if (arrived_ && !in_flight_.empty()) revive_in_flight();
    if (!runnable_.empty()) {
      const std::shared_ptr<StreamState> stream = std::move(runnable_.front());
      runnable_.pop_front();
      advance(lock, stream);
      continue;
    }
    if (in_flight_.empty()) return;
    holder_waits_ = true;
    const auto deadline = earliest_deadline();
    if (deadline == std::chrono::steady_clock::time_point::max()) {
      arrival_.wait(lock);
    } else if (arrival_.wait_until(lock, deadline) == std::cv_status::timeout) {
      arrived_ = true;
    }
    holder_waits_ = false;
  }
}

void Executor::advance(Lock& lock, const std::shared_ptr<StreamState>& stream) {
  // A batch, so that a long queue does not keep the others and a helping host thread waiting.
  constexpr int batch = 32;
  for (int count = 0; count < batch; ++count) {
    if (stream->items.empty()) {
      stream->scheduled = false;
      return;
    }
    if (step(lock, stream) == Step::blocked) return;
    complete_head(*stream);
  }
  runnable_.push_back(stream);
}

Executor::Step Executor::step(Lock& lock, const std::shared_ptr<StreamState>& stream) {
  // References into a deque stay valid while other threads push to its end.
  StreamItem& item = stream->items.front();
  if (auto* command = std::get_if<CommandItem>(&item)) return step_command(lock, stream, *command);
  if (auto* graph = std::get_if<GraphItem>(&item)) return step_graph(lock, stream, *graph);
  if (auto* wait = std::get_if<WaitItem>(&item)) return step_wait(stream, *wait);
  auto& record = *std::get<RecordItem>(item).record;
  record.time = std::chrono::steady_clock::now();
  record.error = stream->error;
  return Step::completed;
}

template <typename Held>
void Executor::dispose(Lock& lock, Held& held) {
  lock.unlock();
  held = Held{};
  lock.lock();
}

template <typename Body, typename Label>
void Executor::guarded(Lock& lock, StreamState& stream, Body&& body, Label&& label) {
  std::optional<AsyncError> failure;
  lock.unlock();
  executing_thread_.store(std::this_thread::get_id());
  try {
    body();
  } catch (...) {
    failure = describe_failure(label());
  }
  executing_thread_.store(std::thread::id{});
  lock.lock();
  if (failure && !stream.error) stream.error = std::move(failure);
}

Executor::Step Executor::step_command(Lock& lock, const std::shared_ptr<StreamState>& stream,
                                      CommandItem& item) {
  bool blocked = false;
  if (!stream->error)
    guarded(
        lock, *stream,
        [&] {
          const Command& command = item.command;
          if (command.communication == nullptr) {
            if (progress_ != nullptr) progress_->start_operation(command.call.label);
            if (item.counted) eager_launches_.fetch_add(1, std::memory_order_relaxed);
            run_command(command);
            return;
          }
          if (stream->communication == nullptr) {
            if (progress_ != nullptr) progress_->start_operation(command.call.label);
            eager_launches_.fetch_add(1, std::memory_order_relaxed);
            stream->communication = command.communication->start({});
          }
          if (stream->communication->try_finish()) return;
          if (stream->communication->deadline() <= std::chrono::steady_clock::now()) {
            stream->communication->time_out();
          }
          blocked = true;
        },
        [&] { return item.command.call.label; });
  if (blocked) {
    in_flight_.push_back(stream);
    return Step::blocked;
  }
  stream->communication.reset();
  // What a host function holds may call the device when it is destroyed.
  if (item.command.host != nullptr) dispose(lock, item.command);
  return Step::completed;
}

Executor::Step Executor::step_graph(Lock& lock, const std::shared_ptr<StreamState>& stream,
                                    GraphItem& item) {
  bool blocked = false;
  if (!stream->error)
    guarded(
        lock, *stream,
        [&] {
          if (stream->run == nullptr) {
            stream->run =
                std::make_unique<GraphRun>(item.graph->body(), item.replay, item.order_seed);
          }
          if (stream->run->advance(progress_, graph_nodes_run_)) return;
          if (stream->run->deadline() <= std::chrono::steady_clock::now()) stream->run->time_out();
          blocked = true;
        },
        [&] { return std::string(stream->run->failed_label()); });
  if (blocked) {
    in_flight_.push_back(stream);
    return Step::blocked;
  }
  stream->run.reset();
  dispose(lock, item.graph);
  return Step::completed;
}

Executor::Step Executor::step_wait(const std::shared_ptr<StreamState>& stream,
                                   const WaitItem& item) {
  const EventRecord& record = *item.record;
  if (record.stream->completed < record.sequence) {
    record.stream->waiters.emplace_back(record.sequence, stream);
    return Step::blocked;
  }
  if (record.error && !stream->error) stream->error = record.error;
  return Step::completed;
}

void Executor::complete_head(StreamState& stream) {
  // A queue keeps the room that it once took, which depends on how far the host ran ahead: of a
  // stream that is idle, memory has to be what it was before.
  constexpr std::size_t kept = 64;
  stream.items.pop_front();
  if (stream.items.empty() && std::exchange(stream.longest, 0) > kept) {
    stream.items = std::deque<StreamItem>();
  }
  ++stream.completed;
  for (std::size_t index = 0; index < stream.waiters.size();) {
    if (stream.waiters[index].first <= stream.completed) {
      runnable_.push_back(std::move(stream.waiters[index].second));
      stream.waiters.erase(stream.waiters.begin() + static_cast<std::ptrdiff_t>(index));
    } else {
      ++index;
    }
  }
  bool reached = false;
  for (Waiter* waiter : waiters_) {
    if (!waiter->reached && waiter->stream == &stream && waiter->sequence <= stream.completed) {
      waiter->reached = true;
      reached = true;
    }
  }
  if (reached && waiters_.size() > 1) done_.notify_all();
  if (reached && waiters_.size() == 1) done_.notify_one();
}

void Executor::schedule(std::shared_ptr<StreamState> stream) {
  stream->scheduled = true;
  runnable_.push_back(std::move(stream));
}

void Executor::revive_in_flight() {
  arrived_ = false;
  for (auto& stream : in_flight_) runnable_.push_back(std::move(stream));
  in_flight_.clear();
}

std::chrono::steady_clock::time_point Executor::earliest_deadline() const {
  auto earliest = std::chrono::steady_clock::time_point::max();
  for (const auto& stream : in_flight_) {
    earliest =
        std::min(earliest, stream->communication != nullptr ? stream->communication->deadline()
                                                            : stream->run->deadline());
  }
  return earliest;
}

}  // namespace cgconform::workloads::reference
