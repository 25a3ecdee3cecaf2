#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "workloads/device/errors.hpp"
#include "workloads/device/graph.hpp"

namespace cgconform::workloads {

enum class CaptureMode : std::uint8_t { global, thread_local_mode, relaxed };
enum class CaptureStatus : std::uint8_t { none, active, invalidated };

/// Whether a stream orders itself with the legacy stream (cudaStreamDefault) or not
/// (cudaStreamNonBlocking).
enum class StreamKind : std::uint8_t { blocking, non_blocking };

/// What an event is for. One that only orders is cheaper to make, record and wait for.
enum class EventKind : std::uint8_t { ordering, timing };

/// A point in a stream's order. Recording inside capture makes it a captured event.
class Event {
 public:
  virtual ~Event() = default;
  /// True where all work before the last record ended. In capture: captured_event.
  virtual bool query() = 0;
  /// Blocks the host until the last record ended.
  virtual void synchronize() = 0;
  /// Milliseconds between two recorded, completed events that are for timing.
  virtual double elapsed_since(Event& start) = 0;
};

/// An asynchronous in-order queue of device work. While it captures, calls add graph nodes and
/// nothing runs; calls that CUDA forbids then throw DeviceError with CUDA's category and
/// invalidate the capture.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Unique among all streams the device ever made.
  virtual std::uint64_t id() const = 0;

  virtual void launch(const OpCall& call) = 0;
  /// Device-to-device copy of `source` to `destination`, equal bytes.
  virtual void copy(const TensorView& destination, const TensorView& source, std::string label) = 0;
  /// Sets every byte of `destination`.
  virtual void fill(const TensorView& destination, std::uint8_t byte, std::string label) = 0;
  /// Copies host memory, read when the copy runs (pinned) or at the call (pageable). A captured
  /// copy reads the host memory at every replay, also where it is pageable, as CUDA's does.
  virtual void upload(const TensorView& destination, const void* host, bool pinned,
                      std::string label) = 0;
  /// Copies to host memory; blocks until done. Refused in capture as `synchronize` is.
  virtual void download(void* host, const TensorView& source) = 0;
  /// Runs host code in stream order; at replay too (a host node).
  virtual void host_function(std::function<void()> function, std::string label) = 0;

  virtual void record(Event& event) = 0;
  /// Orders later work of this stream after the event; forks a capture where the event is captured.
  virtual void wait(Event& event) = 0;
  /// Blocks the host until all enqueued work ended; rethrows the first asynchronous error.
  virtual void synchronize() = 0;
  /// True where all enqueued work ended.
  virtual bool query() = 0;

  virtual void begin_capture(CaptureMode mode) = 0;
  /// Ends the capture begun on this stream. On an invalidated or unjoined capture throws and leaves
  /// the stream usable.
  virtual std::unique_ptr<Graph> end_capture() = 0;
  virtual CaptureStatus capture_status() const = 0;
};

}  // namespace cgconform::workloads
