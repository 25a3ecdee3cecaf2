#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "workloads/device/graph.hpp"
#include "workloads/device/progress.hpp"
#include "workloads/device/reference/command.hpp"

namespace cgconform::workloads::reference {

/// The nodes of a captured graph with their commands. Immutable, shared by a graph, its
/// executables and their runs in flight.
class GraphBody {
 public:
  GraphBody(std::vector<GraphNode> nodes, std::vector<Command> commands);

  std::span<const GraphNode> nodes() const { return nodes_; }
  const Command& command(std::int32_t node) const {
    return commands_[static_cast<std::size_t>(node)];
  }
  std::span<const std::int32_t> successors(std::int32_t node) const {
    return successors_[static_cast<std::size_t>(node)];
  }
  /// The communicators used, each once.
  std::span<const std::shared_ptr<CommunicatorCore>> communicators() const {
    return communicators_;
  }

 private:
  std::vector<GraphNode> nodes_;
  std::vector<Command> commands_;
  std::vector<std::vector<std::int32_t>> successors_;
  std::vector<std::shared_ptr<CommunicatorCore>> communicators_;
};

/// Holds a reference on every communicator of a graph for its lifetime.
class GraphReferences {
 public:
  explicit GraphReferences(std::shared_ptr<const GraphBody> body);
  ~GraphReferences();
  GraphReferences(const GraphReferences&) = delete;
  GraphReferences& operator=(const GraphReferences&) = delete;
  const std::shared_ptr<const GraphBody>& body() const { return body_; }

 private:
  std::shared_ptr<const GraphBody> body_;
};

/// One replay: runs the nodes in a random topological order, so that a missing edge shows.
class GraphRun {
 public:
  GraphRun(std::shared_ptr<const GraphBody> body, std::uint64_t replay, std::uint64_t order_seed);

  /// Runs nodes until all ended (true) or only unfinished communications are left (false).
  /// Throws what a node throws; `failed_label` then names it.
  bool advance(ProgressSink* progress, std::atomic<std::uint64_t>& nodes_run);
  /// Earliest deadline of the unfinished communications.
  std::chrono::steady_clock::time_point deadline() const;
  /// Throws communicator_timeout for the unfinished communication with the earliest deadline.
  void time_out();
  std::string_view failed_label() const { return label_; }

 private:
  struct Flight {
    std::int32_t node;
    std::unique_ptr<PendingCommunication> pending;
  };
  void finish(std::int32_t node);
  bool finish_arrived();
  std::size_t pick(std::size_t count);

  std::shared_ptr<const GraphBody> body_;
  std::uint64_t replay_;
  std::mt19937_64 random_;
  std::vector<std::int32_t> unmet_;  ///< dependencies that have not ended, by node
  std::vector<std::int32_t> ready_;
  std::vector<Flight> flights_;
  std::size_t left_;
  std::string_view label_;
};

}  // namespace cgconform::workloads::reference
