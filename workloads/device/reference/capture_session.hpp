#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "workloads/device/reference/command.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads::reference {

struct StreamState;

/// One capture, from its begin to its end: the nodes recorded so far. Guarded by the core's mutex.
class CaptureSession {
 public:
  CaptureSession(CaptureMode mode, const StreamState* origin, std::uint64_t number)
      : mode_(mode), origin_(origin), number_(number) {}

  CaptureMode mode() const { return mode_; }
  std::thread::id thread() const { return thread_; }
  const StreamState* origin() const { return origin_; }
  std::uint64_t number() const { return number_; }
  bool ended() const { return ended_; }
  bool invalidated() const { return invalidated_; }
  void invalidate() { invalidated_ = true; }
  /// The capture is over for every stream and event that took part.
  void end();

  /// Adds a node after `dependencies` and, for a communication, after the last node of the same
  /// communicator; returns its index.
  std::int32_t add(Command command, std::span<const std::int32_t> dependencies);
  /// True where every node is among `tail` or comes before one of it.
  bool joined(std::span<const std::int32_t> tail) const;
  std::vector<GraphNode> take_nodes() { return std::move(nodes_); }
  std::vector<Command> take_commands() { return std::move(commands_); }

 private:
  CaptureMode mode_;
  const StreamState* origin_;
  std::uint64_t number_;
  std::thread::id thread_ = std::this_thread::get_id();
  bool ended_ = false;
  bool invalidated_ = false;
  std::vector<GraphNode> nodes_;
  std::vector<Command> commands_;
  std::vector<bool> has_successor_;
  std::map<const CommunicatorCore*, std::int32_t> last_of_communicator_;
};

/// Adds the nodes of `more` to `tail`, each once.
void merge_tail(std::vector<std::int32_t>& tail, std::span<const std::int32_t> more);

}  // namespace cgconform::workloads::reference
