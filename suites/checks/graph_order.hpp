#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "workloads/device/graph.hpp"

namespace cgconform::suites::checks {

/// Two nodes of a graph, by index.
using NodePair = std::pair<std::int32_t, std::int32_t>;

/// The first two communications on a communicator that no path joins; empty where all are joined.
std::optional<NodePair> find_unjoined_communications(std::span<const workloads::GraphNode> nodes,
                                                     std::string_view communicator);
/// How many communications on it the graph holds.
std::uint64_t count_communications(std::span<const workloads::GraphNode> nodes,
                                   std::string_view communicator);

/// The first node other than `tail` from which no path leads to `tail`; empty where all are joined.
std::optional<std::int32_t> find_node_not_joined(std::span<const workloads::GraphNode> nodes,
                                                 std::int32_t tail);

}  // namespace cgconform::suites::checks
