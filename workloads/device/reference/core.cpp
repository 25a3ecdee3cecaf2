#include "workloads/device/reference/core.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace cgconform::workloads::reference {
namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

Core::Core(const ReferenceDeviceOptions& options)
    : replay_seed_(options.replay_seed), executor_(options.progress) {
  legacy_ = create_stream("legacy", StreamKind::blocking, true);
}

std::shared_ptr<StreamState> Core::create_stream(std::string name, StreamKind kind, bool legacy) {
  auto stream = std::make_shared<StreamState>();
  stream->name = std::move(name);
  stream->kind = kind;
  stream->legacy = legacy;
  const Lock lock(mutex_);
  stream->id = ++streams_created_;
  streams_.push_back(stream);
  return stream;
}

std::int64_t Core::live_streams() {
  const Lock lock(mutex_);
  return static_cast<std::int64_t>(streams_.size()) - 1;
}

void Core::forget_stream(const std::shared_ptr<StreamState>& stream) {
  const Lock lock(mutex_);
  CaptureSession* session = open_capture(*stream);
  if (session != nullptr && session->origin() == stream.get()) end_session(*session);
  stream->capture.reset();
  const std::uint64_t last = executor_.last_enqueued(*stream);
  if (!executor_.completed(*stream, last)) draining_.push_back({stream, last});
  streams_.erase(std::remove(streams_.begin(), streams_.end(), stream), streams_.end());
}

void Core::forget_communicator(const CommunicatorCore& core) {
  const Lock lock(mutex_);
  last_communication_.erase(&core);
}

void Core::refuse_inside_host_function(std::string_view name) const {
  if (!executor_.executing_here()) return;
  throw DeviceError(ErrorCategory::not_permitted, std::string(name),
                    "device calls are not permitted inside host functions and kernels; make the "
                    "call after a synchronisation");
}

void Core::observe(std::string_view name, std::string_view label, ErrorCategory category) {
  if (!observed_.load(std::memory_order_acquire)) return;
  std::shared_ptr<const CallObserver> observer;
  {
    const Lock lock(mutex_);
    observer = observer_;
  }
  if (observer != nullptr) (*observer)({.call = name, .label = label, .category = category});
}

void Core::set_observer(CallObserver observer) {
  const Lock lock(mutex_);
  const bool wanted = static_cast<bool>(observer);
  observer_ = wanted ? std::make_shared<const CallObserver>(std::move(observer)) : nullptr;
  observed_.store(wanted, std::memory_order_release);
}

LaunchCounters Core::counters() const {
  return {.eager_launches = executor_.eager_launches(),
          .captured_nodes = captured_nodes_.load(std::memory_order_relaxed),
          .graph_launches = graph_launches_.load(std::memory_order_relaxed),
          .graph_nodes_run = executor_.graph_nodes_run(),
          .failed_calls = failed_calls_.load(std::memory_order_relaxed)};
}

void Core::reset_counters() {
  executor_.reset_counters();
  captured_nodes_.store(0, std::memory_order_relaxed);
  graph_launches_.store(0, std::memory_order_relaxed);
  failed_calls_.store(0, std::memory_order_relaxed);
}

std::uint64_t Core::push(const std::shared_ptr<StreamState>& stream, StreamItem item) {
  order_with_legacy(stream);
  return executor_.enqueue(stream, std::move(item));
}

void Core::wait_for(const std::shared_ptr<StreamState>& stream, const QueuePoint& point) {
  if (point.stream == nullptr || point.stream == stream) return;
  if (executor_.completed(*point.stream, point.sequence)) return;
  auto record = std::make_shared<EventRecord>();
  record->stream = point.stream;
  record->sequence = point.sequence;
  executor_.enqueue(stream, WaitItem{std::move(record)});
}

void Core::order_with_legacy(const std::shared_ptr<StreamState>& stream) {
  if (stream->legacy) {
    for (const QueuePoint& end : queue_ends()) {
      if (!end.stream->legacy && end.stream->kind == StreamKind::blocking) wait_for(stream, end);
    }
    // Counted before the item itself is pushed; nothing else can come between under the mutex.
    stream->after_legacy = executor_.last_enqueued(*stream) + 1;
  } else if (stream->kind == StreamKind::blocking && stream->after_legacy < legacy_->after_legacy) {
    wait_for(stream, {legacy_, legacy_->after_legacy});
    stream->after_legacy = legacy_->after_legacy;
  }
}

void Core::order_communicator(const std::shared_ptr<StreamState>& stream,
                              const CommunicatorCore& core) {
  QueuePoint& last = last_communication_[&core];
  wait_for(stream, last);
  last.stream = stream;
}

void Core::enqueue(const std::shared_ptr<StreamState>& stream, Command command,
                   std::string_view call_name) {
  const Lock lock(mutex_);
  require_legacy_usable(*stream, call_name);
  if (CaptureSession* session = open_capture(*stream)) {
    if (session->invalidated()) refuse(CaptureViolation::enqueue_after_invalidation, call_name);
    const std::int32_t node = session->add(std::move(command), stream->capture_tail);
    stream->capture_tail.assign(1, node);
    captured_nodes_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (command.communication == nullptr) {
    push(stream, CommandItem{std::move(command)});
    return;
  }
  const CommunicatorCore& core = *command.communication->core();
  order_communicator(stream, core);
  last_communication_[&core].sequence = push(stream, CommandItem{std::move(command)});
}

void Core::enqueue_uncounted(const std::shared_ptr<StreamState>& stream, Command command) {
  {
    const Lock lock(mutex_);
    if (open_capture(*stream) == nullptr) {
      push(stream, CommandItem{std::move(command), false});
      return;
    }
  }
  run_command(command);
}

void Core::launch_graph(const std::shared_ptr<StreamState>& stream, GraphItem item,
                        QueuePoint& last) {
  constexpr std::string_view call_name = "graph launch";
  const Lock lock(mutex_);
  require_legacy_usable(*stream, call_name);
  if (CaptureSession* session = open_capture(*stream)) {
    if (session->invalidated()) refuse(CaptureViolation::enqueue_after_invalidation, call_name);
    session->invalidate();
    refuse(CaptureViolation::launch_graph_into_capture, call_name);
  }
  const auto graph = item.graph;
  for (const auto& core : graph->body()->communicators()) core->require_open(call_name);
  for (const auto& core : graph->body()->communicators()) order_communicator(stream, *core);
  wait_for(stream, last);
  const std::uint64_t sequence = push(stream, std::move(item));
  last = {stream, sequence};
  for (const auto& core : graph->body()->communicators()) {
    last_communication_[core.get()].sequence = sequence;
  }
  graph_launches_.fetch_add(1, std::memory_order_relaxed);
}

void Core::wait_and_report(const std::shared_ptr<StreamState>& stream, std::uint64_t sequence,
                           std::string_view call_name) {
  executor_.wait(*stream, sequence);
  if (auto error = executor_.take_error(*stream)) {
    throw DeviceError(error->category, std::string(call_name),
                      fmt::format("stream '{}': {}", stream->name, error->message));
  }
}

void Core::synchronize(const std::shared_ptr<StreamState>& stream) {
  constexpr std::string_view call_name = "stream synchronize";
  std::uint64_t sequence = 0;
  {
    const Lock lock(mutex_);
    require_legacy_usable(*stream, call_name);
    if (CaptureSession* session = open_capture(*stream)) {
      session->invalidate();
      refuse(CaptureViolation::synchronize_capturing_stream, call_name);
    }
    require_safe_locked(CaptureViolation::synchronize_other_stream, call_name);
    if (stream->legacy) order_with_legacy(stream);
    sequence = executor_.last_enqueued(*stream);
  }
  wait_and_report(stream, sequence, call_name);
}

bool Core::query(const std::shared_ptr<StreamState>& stream) {
  constexpr std::string_view call_name = "stream query";
  const Lock lock(mutex_);
  require_legacy_usable(*stream, call_name);
  if (CaptureSession* session = open_capture(*stream)) {
    session->invalidate();
    refuse(CaptureViolation::query_capturing_stream, call_name);
  }
  require_safe_locked(CaptureViolation::query_other_stream, call_name);
  return executor_.completed(*stream, executor_.last_enqueued(*stream));
}

std::vector<QueuePoint> Core::queue_ends() {
  draining_.erase(std::remove_if(draining_.begin(), draining_.end(),
                                 [&](const QueuePoint& point) {
                                   return executor_.completed(*point.stream, point.sequence);
                                 }),
                  draining_.end());
  std::vector<QueuePoint> points = draining_;
  for (const auto& stream : streams_) {
    points.push_back({stream, executor_.last_enqueued(*stream)});
  }
  return points;
}

void Core::wait_until_idle() {
  std::vector<QueuePoint> points;
  {
    const Lock lock(mutex_);
    points = queue_ends();
  }
  for (const QueuePoint& point : points) executor_.wait(*point.stream, point.sequence);
}

void Core::synchronize_device() {
  constexpr std::string_view call_name = "device synchronize";
  std::vector<QueuePoint> points;
  {
    const Lock lock(mutex_);
    if (!sessions_.empty()) {
      for (const auto& session : sessions_) session->invalidate();
      refuse(CaptureViolation::synchronize_device, call_name);
    }
    points = queue_ends();
  }
  for (const QueuePoint& point : points) executor_.wait(*point.stream, point.sequence);
  std::optional<AsyncError> first;
  std::string where;
  for (const QueuePoint& point : points) {
    auto error = executor_.take_error(*point.stream);
    if (!error || first) continue;
    first = std::move(error);
    where = point.stream->name;
  }
  if (first) {
    throw DeviceError(first->category, std::string(call_name),
                      fmt::format("stream '{}': {}", where, first->message));
  }
}

void Core::record(const std::shared_ptr<StreamState>& stream, EventState& event) {
  constexpr std::string_view call_name = "event record";
  const Lock lock(mutex_);
  require_legacy_usable(*stream, call_name);
  if (CaptureSession* session = open_capture(*stream)) {
    if (session->invalidated()) refuse(CaptureViolation::enqueue_after_invalidation, call_name);
    event = {.kind = event.kind,
             .record = nullptr,
             .capture = stream->capture,
             .tail = stream->capture_tail};
    return;
  }
  auto record = std::make_shared<EventRecord>();
  record->stream = stream;
  order_with_legacy(stream);
  // Items come only under the mutex, so the sequence is known before the item is enqueued.
  record->sequence = executor_.last_enqueued(*stream) + 1;
  event = {.kind = event.kind, .record = record, .capture = nullptr, .tail = {}};
  executor_.enqueue(stream, RecordItem{std::move(record)});
}

void Core::wait(const std::shared_ptr<StreamState>& stream, EventState& event) {
  constexpr std::string_view call_name = "stream wait";
  const Lock lock(mutex_);
  require_legacy_usable(*stream, call_name);
  CaptureSession* session = open_capture(*stream);
  if (session != nullptr && session->invalidated()) {
    refuse(CaptureViolation::enqueue_after_invalidation, call_name);
  }
  if (event.capture == nullptr) {
    if (event.record == nullptr) return;  // never recorded: nothing to wait for
    if (session != nullptr) {
      session->invalidate();
      refuse(CaptureViolation::wait_outside_event, call_name);
    }
    push(stream, WaitItem{event.record});
    return;
  }
  CaptureSession& capture = *event.capture;
  if (capture.ended() || capture.invalidated()) {
    if (session != nullptr) session->invalidate();
    refuse(CaptureViolation::use_event_of_ended_capture, call_name);
  }
  if (stream->legacy) {
    capture.invalidate();
    refuse(CaptureViolation::legacy_waits_for_captured_event, call_name);
  }
  if (session == nullptr) {
    stream->capture = event.capture;
    stream->capture_tail = event.tail;
    return;
  }
  if (session != &capture) {
    session->invalidate();
    capture.invalidate();
    refuse(CaptureViolation::merge_captures, call_name);
  }
  merge_tail(stream->capture_tail, event.tail);
}

void Core::refuse_captured_event(EventState& event, CaptureViolation violation,
                                 std::string_view call_name) {
  if (event.capture == nullptr) return;
  if (event.capture->ended() || event.capture->invalidated()) {
    refuse(CaptureViolation::use_event_of_ended_capture, call_name);
  }
  if (capture_rule(violation).effect == ViolationEffect::invalidates) event.capture->invalidate();
  refuse(violation, call_name);
}

bool Core::query_event(EventState& event) {
  constexpr std::string_view call_name = "event query";
  const Lock lock(mutex_);
  refuse_captured_event(event, CaptureViolation::query_captured_event, call_name);
  require_safe_locked(CaptureViolation::query_other_event, call_name);
  return event.record == nullptr ||
         executor_.completed(*event.record->stream, event.record->sequence);
}

void Core::synchronize_event(EventState& event) {
  constexpr std::string_view call_name = "event synchronize";
  std::shared_ptr<EventRecord> record;
  {
    const Lock lock(mutex_);
    refuse_captured_event(event, CaptureViolation::synchronize_captured_event, call_name);
    require_safe_locked(CaptureViolation::synchronize_other_event, call_name);
    record = event.record;
  }
  if (record == nullptr) return;
  executor_.wait(*record->stream, record->sequence);
  if (executor_.reached(*record).error) {
    wait_and_report(record->stream, record->sequence, call_name);
  }
}

double Core::elapsed(EventState& start, EventState& end) {
  constexpr std::string_view call_name = "event elapsed";
  const Lock lock(mutex_);
  for (EventState* event : {&start, &end}) {
    refuse_captured_event(*event, CaptureViolation::time_captured_event, call_name);
    if (event->kind != EventKind::timing) {
      throw DeviceError(ErrorCategory::invalid_resource_handle, std::string(call_name),
                        "an event is not for timing; create both as EventKind::timing");
    }
    if (event->record == nullptr) {
      throw DeviceError(ErrorCategory::invalid_resource_handle, std::string(call_name),
                        "an event was never recorded; record both first");
    }
    if (!executor_.completed(*event->record->stream, event->record->sequence)) {
      throw DeviceError(ErrorCategory::not_ready, std::string(call_name),
                        "an event has not completed; synchronise it first");
    }
  }
  const auto span = executor_.reached(*end.record).time - executor_.reached(*start.record).time;
  return std::chrono::duration<double, std::milli>(span).count();
}

}  // namespace cgconform::workloads::reference
