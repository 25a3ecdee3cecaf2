#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/device/graph.hpp"

namespace cgconform::workloads {

/// For every pair of nodes, whether a path leads from one to the other. Holds one bit a pair.
class Reachability {
 public:
  /// Nodes stand in capture order: dependencies come before dependants.
  explicit Reachability(std::span<const GraphNode> nodes);
  bool reaches(std::int32_t from, std::int32_t to) const {
    const auto row = static_cast<std::size_t>(to) * words_;
    const auto bit = static_cast<std::size_t>(from);
    return ((ancestors_[row + bit / 64] >> (bit % 64)) & 1U) != 0;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> ancestors_;
};

/// Two operands that touch the same bytes, at least one writing, in nodes that no path orders.
struct UnorderedPair {
  std::int32_t first = -1;  ///< node captured first
  std::int32_t second = -1;
  std::size_t first_operand = 0;
  std::size_t second_operand = 0;
};

/// At most one pair for two nodes, ordered by (first, second).
std::vector<UnorderedPair> find_unordered_pairs(std::span<const GraphNode> nodes);

}  // namespace cgconform::workloads
