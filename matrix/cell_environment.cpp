#include "matrix/cell_environment.hpp"

#include <fmt/format.h>

namespace cgconform::matrix {

ProcessEnvironment cell_environment(const Cell& cell) {
  const PlatformSettings& platform = cell.platform;
  ProcessEnvironment variables;
  if (platform.expandable_segments) {
    // The frameworks' test reads the older variable only.
    const char* name =
        platform.expandable_segments_as_tested ? "PYTORCH_CUDA_ALLOC_CONF" : "PYTORCH_ALLOC_CONF";
    variables[name] = "expandable_segments:True";
  }
  if (platform.stream_ordered_segments) {
    variables["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync";
  }
  if (platform.nccl_graph_register) {
    const char* off = platform.nccl_graph_register_misspelt ? "00" : "0";
    variables["NCCL_GRAPH_REGISTER"] = *platform.nccl_graph_register ? "1" : off;
  }
  if (platform.cuda_device_max_connections) {
    variables["CUDA_DEVICE_MAX_CONNECTIONS"] =
        fmt::format("{}", *platform.cuda_device_max_connections);
  }
  if (platform.cuda_graphs_use_node_priority) variables["CUDA_GRAPHS_USE_NODE_PRIORITY"] = "1";
  if (platform.nvte_cpu_offload_v1) variables["NVTE_CPU_OFFLOAD_V1"] = "1";
  return variables;
}

std::string environment_prefix(const ProcessEnvironment& environment) {
  if (environment.empty()) return {};
  std::string prefix = "env ";
  for (const auto& [name, value] : environment) prefix += fmt::format("{}={} ", name, value);
  return prefix;
}

}  // namespace cgconform::matrix
