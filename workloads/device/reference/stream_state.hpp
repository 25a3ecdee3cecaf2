#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "workloads/device/errors.hpp"
#include "workloads/device/reference/command.hpp"
#include "workloads/device/reference/graph_run.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads::reference {

class CaptureSession;
struct StreamState;

/// The first thing that went wrong on a stream since it last synchronised.
struct AsyncError {
  ErrorCategory category = ErrorCategory::unknown;
  std::string message;  ///< names the op's label and the cause
};

/// A point in a stream: reached once the stream completed `sequence` items.
struct EventRecord {
  std::shared_ptr<StreamState> stream;
  std::uint64_t sequence = 0;
  std::chrono::steady_clock::time_point time;  ///< set when the point is reached
  std::optional<AsyncError> error;             ///< of work before the point
};

struct RecordItem {
  std::shared_ptr<EventRecord> record;
};
/// Waits for a recorded event; an error before it spreads to the waiting stream.
struct WaitItem {
  std::shared_ptr<EventRecord> record;
};
struct CommandItem {
  Command command;
  bool counted = true;  ///< false for an allocator's own fills
};
struct GraphItem {
  std::shared_ptr<const GraphReferences> graph;
  std::uint64_t replay = 0;
  std::uint64_t order_seed = 0;
};
using StreamItem = std::variant<RecordItem, WaitItem, CommandItem, GraphItem>;

/// What the executor keeps of a stream. Guarded by the executor's mutex, the last
/// three members by the core's.
/// Kept alive by its stream, by queued work and by events.
struct StreamState {
  std::string name;
  std::uint64_t id = 0;
  StreamKind kind = StreamKind::blocking;
  bool legacy = false;

  std::deque<StreamItem> items;
  std::size_t longest = 0;  ///< that `items` have been since they were made anew
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
  bool scheduled = false;  ///< in the executor's runnable queue, being advanced, or blocked
  std::optional<AsyncError> error;
  /// Streams whose head waits for this one to complete that many items.
  std::vector<std::pair<std::uint64_t, std::shared_ptr<StreamState>>> waiters;

  std::unique_ptr<PendingCommunication> communication;  ///< of the item at the head
  std::unique_ptr<GraphRun> run;                        ///< of the item at the head

  std::uint64_t after_legacy = 0;  ///< item of the legacy stream that later items come after
  std::shared_ptr<CaptureSession> capture;
  std::vector<std::int32_t> capture_tail;  ///< nodes that the next captured node depends on
};

}  // namespace cgconform::workloads::reference
