#include "suites/pipeline_passes.hpp"

#include <algorithm>

namespace cgconform::suites {
namespace {

std::int32_t group_size(const matrix::Cell& cell) {
  return cell.config.microbatch_group_size_per_vp_stage.value_or(
      cell.config.pipeline_model_parallel_size);
}

/// Pass number `number` among those in one direction.
Pass numbered_pass(const matrix::Cell& cell, std::int32_t microbatches, std::int32_t number,
                   bool forward) {
  const std::int32_t chunks = chunk_count(cell);
  if (chunks == 1) return {number, forward, 0};
  const std::int32_t group = group_size(cell);
  const std::int32_t groups_before = number / (group * chunks);
  const std::int32_t first = groups_before * group;
  const std::int32_t size = std::min(group, microbatches - first);
  const std::int32_t within = number - groups_before * group * chunks;
  const std::int32_t chunk = within / size;
  return {first + within % size, forward, forward ? chunk : chunks - 1 - chunk};
}

}  // namespace

std::int32_t stage_of(const matrix::Cell& cell, int rank) {
  const std::int32_t stages = cell.config.pipeline_model_parallel_size;
  return static_cast<std::int32_t>(rank) * stages / cell.ranks();
}

std::int32_t chunk_count(const matrix::Cell& cell) {
  const bool pipeline = cell.config.pipeline_model_parallel_size > 1;
  return pipeline ? cell.config.virtual_pipeline_model_parallel_size.value_or(1) : 1;
}

std::vector<LayerSpan> stage_chunks(const matrix::Cell& cell, int rank) {
  const std::int32_t stages = cell.config.pipeline_model_parallel_size;
  const std::int32_t chunks = chunk_count(cell);
  const std::int32_t count = cell.config.num_layers / stages / chunks;
  std::vector<LayerSpan> spans;
  spans.reserve(static_cast<std::size_t>(chunks));
  for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
    spans.push_back({(chunk * stages + stage_of(cell, rank)) * count, count});
  }
  return spans;
}

std::int32_t forwards_ahead(const matrix::Cell& cell, int rank) {
  const std::int32_t chunks = chunk_count(cell);
  const std::int32_t behind = cell.config.pipeline_model_parallel_size - stage_of(cell, rank) - 1;
  const std::int32_t wanted = chunks == 1 ? behind : 2 * behind + (chunks - 1) * group_size(cell);
  return std::min(wanted, cell.config.num_microbatches * chunks);
}

std::vector<Pass> training_passes(const matrix::Cell& cell, int rank) {
  const std::int32_t microbatches = cell.config.num_microbatches;
  const std::int32_t all = microbatches * chunk_count(cell);
  const std::int32_t ahead = forwards_ahead(cell, rank);
  std::vector<Pass> passes;
  passes.reserve(static_cast<std::size_t>(all) * 2);
  for (std::int32_t i = 0; i < all + ahead; ++i) {
    if (i < all) passes.push_back(numbered_pass(cell, microbatches, i, true));
    if (i >= ahead) passes.push_back(numbered_pass(cell, microbatches, i - ahead, false));
  }
  return passes;
}

std::vector<Pass> validation_passes(const matrix::Cell& cell) {
  const std::int32_t microbatches = cell.shape.eval_iters;
  std::vector<Pass> passes;
  for (std::int32_t i = 0; i < microbatches * chunk_count(cell); ++i) {
    passes.push_back(numbered_pass(cell, microbatches, i, true));
  }
  return passes;
}

bool has_graphs(const matrix::Cell& cell, std::int32_t layer) {
  switch (cell.shape.graphed_layers) {
    case matrix::GraphedLayers::first:
      return layer == 0;
    case matrix::GraphedLayers::last:
      return layer == cell.config.num_layers - 1;
    case matrix::GraphedLayers::odd:
      return layer % 2 != 0;
    case matrix::GraphedLayers::all:
      break;
  }
  return true;
}

}  // namespace cgconform::suites
