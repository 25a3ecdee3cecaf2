#pragma once

#include <cstdint>
#include <vector>

#include "matrix/cell.hpp"

namespace cgconform::suites {

/// A forward or backward of one micro-batch through one chunk of a stage.
struct Pass {
  std::int32_t microbatch = 0;
  bool forward = true;
  std::int32_t chunk = 0;
};

/// Consecutive layers, counted over the whole model.
struct LayerSpan {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

/// The stage of a rank of the gang: the ranks of one stage are neighbours.
std::int32_t stage_of(const matrix::Cell& cell, int rank);
/// Model chunks a stage has; a single stage has one.
std::int32_t chunk_count(const matrix::Cell& cell);
/// The layers of a rank's stage by chunk, equally many each: with P stages, chunk c of stage s is
/// share c * P + s of the model.
std::vector<LayerSpan> stage_chunks(const matrix::Cell& cell, int rank);

/// Forwards that a rank's stage runs before its first backward: as many as there are stages after
/// it; with several chunks twice as many and one group of micro-batches for every further chunk.
std::int32_t forwards_ahead(const matrix::Cell& cell, int rank);
/// A training step on a rank, in execution order: the forwards ahead, then one forward and one
/// backward in turn, then the backwards that are left. Forwards take the micro-batches in groups,
/// inside a group chunk after chunk; backwards do so with the chunks from last to first. Derived
/// from the rules of the schedule, without the code that runs it.
std::vector<Pass> training_passes(const matrix::Cell& cell, int rank);
std::vector<Pass> validation_passes(const matrix::Cell& cell);

/// True where the shape of the cell gives the layer graphs, the implementation permitting.
bool has_graphs(const matrix::Cell& cell, std::int32_t layer);

/// Visits the layers of each pass in execution order: upwards in forward, downwards in backward.
template <typename Visit>
void for_each_layer(const std::vector<LayerSpan>& chunks, const std::vector<Pass>& passes,
                    const Visit& visit) {
  for (const Pass& pass : passes) {
    const LayerSpan& layers = chunks.at(static_cast<std::size_t>(pass.chunk));
    for (std::int32_t i = 0; i < layers.count; ++i) {
      visit(pass, layers.first + (pass.forward ? i : layers.count - 1 - i));
    }
  }
}

}  // namespace cgconform::suites
