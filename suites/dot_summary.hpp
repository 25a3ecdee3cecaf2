#pragma once

#include <string_view>

#include "workloads/device/graph.hpp"

namespace cgconform::suites {

/// Counts the nodes and edges of a graph in the DOT language, in subgraphs as well. Understands
/// what dumps of graphs consist of: node and edge statements, attribute lists, quoted names. Throws
/// InternalError, with the place, for text that is not DOT.
workloads::GraphSize dot_size(std::string_view dot);

}  // namespace cgconform::suites
