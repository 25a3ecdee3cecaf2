#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/ops/op.hpp"

namespace cgconform::workloads {

class Graph;
class Stream;

enum class NodeKind : std::uint8_t { kernel, copy, fill, host, communication, empty };
std::string_view node_kind_name(NodeKind kind);

/// What a captured node is and touches; the basis of the address ledger and the edge audit.
struct GraphNode {
  NodeKind kind = NodeKind::empty;
  std::string label;
  std::string_view op_name;                ///< the op, copy or collective
  std::vector<Operand> operands;           ///< every address the node reads or writes
  std::vector<std::int32_t> dependencies;  ///< indices of the nodes that must end first
  std::string communicator;                ///< name, of communication nodes
  std::int32_t rank = -1;                  ///< this process's in the communicator
  std::int32_t peer = -1;                  ///< the other rank of a message; -1 for collectives
};

/// How many nodes and edges a graph has.
struct GraphSize {
  std::size_t nodes = 0;
  std::size_t edges = 0;
  friend bool operator==(const GraphSize&, const GraphSize&) = default;
};

/// How a graph is made executable; the names are those of CUDA's flags.
struct InstantiateOptions {
  bool auto_free_on_launch = false;  ///< frees what the graph's own allocation nodes left
  bool use_node_priority = false;    ///< runs nodes at the priority of their stream at capture
};

/// What a graph consists of as the device counts it; one call of a capture may add several nodes.
struct GraphCensus {
  std::map<std::string, std::uint64_t> nodes;  ///< by kind: "kernel", "memcpy", "host", ...
  std::uint64_t edges = 0;
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& [kind, count] : nodes) sum += count;
    return sum;
  }
};

/// What became of an update; the reason is empty where it took place.
struct UpdateOutcome {
  bool updated = false;
  std::string reason;
};

/// An executable graph. Launching enqueues one run on the stream; launches of one exec are ordered.
class GraphExec {
 public:
  virtual ~GraphExec() = default;
  /// Enqueues one replay; returns before it runs. Throws DeviceError.
  virtual void launch(Stream& stream) = 0;
  /// Brings the graph to the device ahead of its first launch, in stream order. Throws DeviceError.
  virtual void upload(Stream& stream) = 0;
  /// Replays enqueued so far.
  virtual std::uint64_t launches() const = 0;
  /// Runs `graph` from the next launch on. Refused, and nothing changed, where its nodes differ in
  /// more than their parameters.
  virtual UpdateOutcome update(const Graph& graph) = 0;
};

/// A captured graph: a DAG of nodes in capture order.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual std::span<const GraphNode> nodes() const = 0;
  virtual std::unique_ptr<GraphExec> instantiate(const InstantiateOptions& options) = 0;
  std::unique_ptr<GraphExec> instantiate() { return instantiate({}); }
  virtual std::unique_ptr<Graph> clone() const = 0;
  virtual GraphCensus census() const = 0;
  /// The device's own dump of the graph in the DOT language. Throws DeviceError.
  virtual std::string dot() const = 0;
  /// Keeps a user object of the same device until this graph and every executable that is made of
  /// it from now on are destroyed.
  virtual void retain(std::shared_ptr<void> user_object) = 0;
};

/// True where a path leads from node `from` to node `to`.
bool reaches(std::span<const GraphNode> nodes, std::int32_t from, std::int32_t to);

}  // namespace cgconform::workloads
