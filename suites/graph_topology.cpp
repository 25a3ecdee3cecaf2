#include "suites/graph_topology.hpp"

#include <string>

#include <fmt/format.h>
#include <xxhash.h>

namespace cgconform::suites {
namespace {

std::uint64_t hash_of(const std::string& text) {
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

std::uint64_t graph_topology(const workloads::GraphRecord& graph) {
  std::string text;
  for (const workloads::GraphNode& node : graph.nodes) {
    text +=
        fmt::format("{} {} {}:", static_cast<int>(node.kind), node.op_name, node.operands.size());
    for (const std::int32_t dependency : node.dependencies) text += fmt::format(" {}", dependency);
    text += '\n';
  }
  return hash_of(text);
}

std::uint64_t leg_topology(const workloads::LegRecord& record) {
  if (record.graphs.empty()) return 0;
  std::string text;
  for (const workloads::GraphRecord& graph : record.graphs) {
    text += fmt::format("{} {} {} {:016x}\n", graph.layer, graph.microbatch,
                        workloads::pass_name(graph.forward, graph.wgrad), graph_topology(graph));
  }
  return hash_of(text);
}

}  // namespace cgconform::suites
