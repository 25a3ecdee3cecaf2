#include "workloads/capture/layer_group.hpp"

#include <algorithm>

#include "matrix/virtual_stages.hpp"

namespace cgconform::workloads {
namespace {

/// The model chunk that holds a layer.
LayerGroup chunk_of(const matrix::Cell& cell, std::int32_t layer) {
  for (std::int32_t stage = 0; stage < cell.config.pipeline_model_parallel_size; ++stage) {
    for (const matrix::VirtualStage& chunk : matrix::virtual_stages(cell, stage)) {
      if (chunk.first_layer <= layer && layer < chunk.end_layer) {
        return {chunk.first_layer, chunk.end_layer - 1};
      }
    }
  }
  return {layer, layer};
}

}  // namespace

std::optional<LayerGroup> recomputed_group(const matrix::Cell& cell, std::int32_t layer) {
  if (cell.config.recompute_granularity != matrix::RecomputeGranularity::full) return std::nullopt;
  const LayerGroup chunk = chunk_of(cell, layer);
  const std::int32_t in_chunk = layer - chunk.first;
  const std::int32_t count = std::max(cell.config.recompute_num_layers.value_or(1), 1);
  if (cell.config.recompute_method == matrix::RecomputeMethod::block) {
    if (in_chunk >= count) return std::nullopt;
    return LayerGroup{layer, layer};
  }
  const std::int32_t first = chunk.first + in_chunk / count * count;
  return LayerGroup{first, std::min(first + count - 1, chunk.last)};
}

}  // namespace cgconform::workloads
