#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/ops/op.hpp"

namespace cgconform::workloads {

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
};

/// An executable graph. Launching enqueues one run on the stream; launches of one exec are ordered.
class GraphExec {
 public:
  virtual ~GraphExec() = default;
  /// Enqueues one replay; returns before it runs. Throws DeviceError.
  virtual void launch(Stream& stream) = 0;
  /// Replays enqueued so far.
  virtual std::uint64_t launches() const = 0;
};

/// A captured graph: a DAG of nodes in capture order.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual std::span<const GraphNode> nodes() const = 0;
  virtual std::unique_ptr<GraphExec> instantiate() = 0;
};

/// True where a path leads from node `from` to node `to`.
bool reaches(std::span<const GraphNode> nodes, std::int32_t from, std::int32_t to);

}  // namespace cgconform::workloads
