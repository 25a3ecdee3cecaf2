#include "workloads/device/graph.hpp"

#include <cstddef>
#include <vector>

namespace cgconform::workloads {

// Dependencies point to earlier nodes, so the search walks from `to` back to `from` and needs no
// node before `from`.
bool reaches(std::span<const GraphNode> nodes, std::int32_t from, std::int32_t to) {
  if (from == to) return true;
  if (from > to) return false;
  std::vector<bool> wanted(static_cast<std::size_t>(to) + 1, false);
  wanted[static_cast<std::size_t>(to)] = true;
  for (std::int32_t node = to; node > from; --node) {
    if (!wanted[static_cast<std::size_t>(node)]) continue;
    for (std::int32_t dependency : nodes[static_cast<std::size_t>(node)].dependencies) {
      wanted[static_cast<std::size_t>(dependency)] = true;
    }
  }
  return wanted[static_cast<std::size_t>(from)];
}

}  // namespace cgconform::workloads
