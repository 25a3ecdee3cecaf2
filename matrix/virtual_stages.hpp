#pragma once

#include <cstdint>
#include <vector>

#include "matrix/cell.hpp"

namespace cgconform::matrix {

/// The layers of one virtual stage of the pipeline, [first_layer, end_layer) over the whole model.
struct VirtualStage {
  std::int32_t first_layer = 0;
  std::int32_t end_layer = 0;
  bool first = false;  ///< of the model
  bool last = false;
};

/// Model chunks a pipeline stage has. One stage has all layers in one chunk.
std::int32_t chunks_a_stage(const Cell& cell);

/// What pipeline stage `stage` holds, by chunk: of P stages with C chunks each, chunk c of stage s
/// is virtual stage c * P + s. Layers are dealt out in equal shares, or as equal as they can be.
std::vector<VirtualStage> virtual_stages(const Cell& cell, std::int32_t stage);

/// Where rank `rank` of a cell's gang stands, in Megatron's default order of ranks: the ranks that
/// hold the parts of one layer are neighbours, then come the replicas of a stage, then the stages.
std::int32_t pipeline_stage_of(const Cell& cell, std::int32_t rank);
std::int32_t replica_of(const Cell& cell, std::int32_t rank);
std::int32_t tensor_rank_of(const Cell& cell, std::int32_t rank);

/// True where layer `layer` is among those that get graphs of their own.
bool is_graphed(const Cell& cell, std::int32_t layer);

}  // namespace cgconform::matrix
