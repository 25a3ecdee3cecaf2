#include "workloads/capture/edge_audit.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace cgconform::workloads {
namespace {

/// The bytes an operand touches.
struct Touch {
  const std::byte* begin;
  const std::byte* end;
  std::int32_t node;
  std::size_t operand;
  bool writes;
};

std::vector<Touch> touches_by_address(std::span<const GraphNode> nodes) {
  std::vector<Touch> touches;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::vector<Operand>& operands = nodes[node].operands;
    for (std::size_t operand = 0; operand < operands.size(); ++operand) {
      const TensorView& tensor = operands[operand].tensor;
      if (!tensor.valid() || tensor.bytes() == 0) continue;
      const auto* begin = static_cast<const std::byte*>(tensor.data);
      touches.push_back({begin, begin + tensor.bytes(), static_cast<std::int32_t>(node), operand,
                         operands[operand].access != Access::read});
    }
  }
  std::sort(touches.begin(), touches.end(),
            [](const Touch& a, const Touch& b) { return a.begin < b.begin; });
  return touches;
}

}  // namespace

Reachability::Reachability(std::span<const GraphNode> nodes)
    : words_((nodes.size() + 63) / 64), ancestors_(words_ * nodes.size(), 0) {
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (const std::int32_t dependency : nodes[node].dependencies) {
      const auto from = static_cast<std::size_t>(dependency);
      for (std::size_t word = 0; word < words_; ++word) {
        ancestors_[node * words_ + word] |= ancestors_[from * words_ + word];
      }
      ancestors_[node * words_ + from / 64] |= std::uint64_t{1} << (from % 64);
    }
  }
}

std::vector<UnorderedPair> find_unordered_pairs(std::span<const GraphNode> nodes) {
  const Reachability paths(nodes);
  const std::vector<Touch> touches = touches_by_address(nodes);
  std::vector<UnorderedPair> pairs;
  for (std::size_t i = 0; i < touches.size(); ++i) {
    const Touch& a = touches[i];
    for (std::size_t j = i + 1; j < touches.size() && touches[j].begin < a.end; ++j) {
      const Touch& b = touches[j];
      if (a.node == b.node || (!a.writes && !b.writes)) continue;
      if (paths.reaches(a.node, b.node) || paths.reaches(b.node, a.node)) continue;
      if (a.node < b.node) {
        pairs.push_back({a.node, b.node, a.operand, b.operand});
      } else {
        pairs.push_back({b.node, a.node, b.operand, a.operand});
      }
    }
  }
  const auto nodes_of = [](const UnorderedPair& p) { return std::tie(p.first, p.second); };
  std::sort(pairs.begin(), pairs.end(), [&](const UnorderedPair& a, const UnorderedPair& b) {
    return nodes_of(a) < nodes_of(b);
  });
  pairs.erase(std::unique(pairs.begin(), pairs.end(),
                          [&](const UnorderedPair& a, const UnorderedPair& b) {
                            return nodes_of(a) == nodes_of(b);
                          }),
              pairs.end());
  return pairs;
}

}  // namespace cgconform::workloads
