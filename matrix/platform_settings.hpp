#pragma once

#include <cstdint>
#include <optional>

namespace cgconform::matrix {

/// Which memory pool the graphs of one cell capture into.
enum class GraphPool : std::uint8_t { shared, separate };

/// A framework or library version, `major.minor.patch`; pre-release suffixes are dropped.
struct Version {
  std::int32_t major_number = 0;
  std::int32_t minor_number = 0;
  std::int32_t patch_number = 0;
  friend constexpr auto operator<=>(const Version&, const Version&) = default;
};

/// Settings of the process and machine that rules and cells depend on. Plain data.
struct PlatformSettings {
  /// Effective state of `expandable_segments` after all variables and spellings.
  bool expandable_segments = false;
  /// What the frameworks' raw substring test on PYTORCH_CUDA_ALLOC_CONF sees; differs from the
  /// effective state for spellings the test misses.
  bool expandable_segments_as_tested = false;
  /// Segments come from the runtime's stream-ordered pool (backend:cudaMallocAsync).
  bool stream_ordered_segments = false;
  /// NCCL_GRAPH_REGISTER; absent means unset (NCCL's default is on).
  std::optional<bool> nccl_graph_register;
  /// True where NCCL_GRAPH_REGISTER turns registration off but is not the exact string `0` that the
  /// frameworks compare with, such as `00`.
  bool nccl_graph_register_misspelt = false;
  /// CUDA_DEVICE_MAX_CONNECTIONS; absent means unset or no integer.
  std::optional<std::int32_t> cuda_device_max_connections;
  bool cuda_graphs_use_node_priority = false;  ///< CUDA_GRAPHS_USE_NODE_PRIORITY is 1
  bool nvte_cpu_offload_v1 = false;            ///< NVTE_CPU_OFFLOAD_V1 is 1
  GraphPool graph_pool = GraphPool::shared;
  /// Compute capability times ten, 90 for sm_90.
  std::int32_t compute_capability = 90;
  std::optional<Version> transformer_engine;
  std::optional<Version> torch;
  std::optional<Version> nccl;

  friend bool operator==(const PlatformSettings&, const PlatformSettings&) = default;
};

}  // namespace cgconform::matrix
