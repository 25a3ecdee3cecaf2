#include "matrix/virtual_stages.hpp"

namespace cgconform::matrix {

std::int32_t chunks_a_stage(const Cell& cell) {
  if (cell.config.pipeline_model_parallel_size == 1) return 1;
  return cell.config.virtual_pipeline_model_parallel_size.value_or(1);
}

std::vector<VirtualStage> virtual_stages(const Cell& cell, std::int32_t stage) {
  const std::int32_t stages = cell.config.pipeline_model_parallel_size;
  const std::int32_t chunks = chunks_a_stage(cell);
  const std::int64_t all = std::int64_t{stages} * chunks;
  const auto begin_of = [&](std::int64_t virtual_stage) {
    return static_cast<std::int32_t>(cell.config.num_layers * virtual_stage / all);
  };
  std::vector<VirtualStage> held;
  held.reserve(static_cast<std::size_t>(chunks));
  for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t number = std::int64_t{chunk} * stages + stage;
    held.push_back({begin_of(number), begin_of(number + 1), number == 0, number + 1 == all});
  }
  return held;
}

std::int32_t pipeline_stage_of(const Cell& cell, std::int32_t rank) {
  const std::int32_t of_stage =
      cell.config.tensor_model_parallel_size * cell.config.data_parallel_size;
  return rank / of_stage % cell.config.pipeline_model_parallel_size;
}

std::int32_t replica_of(const Cell& cell, std::int32_t rank) {
  return rank / cell.config.tensor_model_parallel_size % cell.config.data_parallel_size;
}

std::int32_t tensor_rank_of(const Cell& cell, std::int32_t rank) {
  return rank % cell.config.tensor_model_parallel_size;
}

bool is_graphed(const Cell& cell, std::int32_t layer) {
  switch (cell.shape.graphed_layers) {
    case GraphedLayers::all:
      return true;
    case GraphedLayers::first:
      return layer == 0;
    case GraphedLayers::last:
      return layer + 1 == cell.config.num_layers;
    case GraphedLayers::odd:
      return layer % 2 == 1;
  }
  return true;
}

}  // namespace cgconform::matrix
