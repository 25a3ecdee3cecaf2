#include "suites/checks/graph_order.hpp"

#include <vector>

namespace cgconform::suites::checks {
namespace {

using workloads::GraphNode;
using workloads::NodeKind;

std::vector<std::int32_t> communications_on(std::span<const GraphNode> nodes,
                                            std::string_view communicator) {
  std::vector<std::int32_t> found;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const bool on =
        nodes[node].kind == NodeKind::communication && nodes[node].communicator == communicator;
    if (on) found.push_back(static_cast<std::int32_t>(node));
  }
  return found;
}

}  // namespace

std::optional<NodePair> find_unjoined_communications(std::span<const GraphNode> nodes,
                                                     std::string_view communicator) {
  const std::vector<std::int32_t> calls = communications_on(nodes, communicator);
  for (std::size_t first = 0; first < calls.size(); ++first) {
    for (std::size_t second = first + 1; second < calls.size(); ++second) {
      if (workloads::reaches(nodes, calls[first], calls[second])) continue;
      return NodePair{calls[first], calls[second]};
    }
  }
  return std::nullopt;
}

std::uint64_t count_communications(std::span<const GraphNode> nodes,
                                   std::string_view communicator) {
  return communications_on(nodes, communicator).size();
}

std::optional<std::int32_t> find_node_not_joined(std::span<const GraphNode> nodes,
                                                 std::int32_t tail) {
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const auto index = static_cast<std::int32_t>(node);
    if (!workloads::reaches(nodes, index, tail)) return index;
  }
  return std::nullopt;
}

}  // namespace cgconform::suites::checks
