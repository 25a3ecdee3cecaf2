#pragma once

#include <cstdint>
#include <string_view>

#include "matrix/cell.hpp"
#include "suites/coverage_plan.hpp"

/// What recompute a configuration asks for, derived from it and from the rules of the
/// implementations alone, without the code that does it.
namespace cgconform::suites {

bool asks_for_recompute(const matrix::Cell& cell);
/// The same of the layers that a rank's stage holds.
bool stage_recomputes(const matrix::Cell& cell, int rank);

/// True where the nodes of the graph of a rank include a recompute. Graphs of whole iterations hold
/// what eager code does. In graphs of single layers the checkpoints of core_attn, mlp, moe and
/// shared_experts do nothing, while a discarded output of layernorm or moe_act is computed again by
/// the backward.
bool graph_recomputes(const matrix::Cell& cell, const PlannedGraph& graph, int rank);

/// True where some backward of the cell draws dropout masks again.
bool redraws_masks(const matrix::Cell& cell);
/// The same of the layers that a rank's stage holds.
bool stage_redraws_masks(const matrix::Cell& cell, int rank);
/// True where the backward of a training execution draws the mask named `tensor` again:
/// `attention_replayed` says that the layer's attention ran from a graph of its own or its layer's.
bool redraws_mask(const matrix::Cell& cell, std::int32_t layer, std::string_view tensor,
                  bool attention_replayed);

}  // namespace cgconform::suites
