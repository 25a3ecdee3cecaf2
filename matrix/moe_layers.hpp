#pragma once

#include <cstdint>

#include "matrix/cell.hpp"

namespace cgconform::matrix {

/// True where the model has experts at all.
bool has_experts(const Cell& cell);

/// True where layer `layer` of the whole model has experts in the place of its MLP, as
/// `moe_layer_freq` says: layer 0 and every n-th after it, or those of its list.
bool is_moe_layer(const Cell& cell, std::int32_t layer);

/// True where a scope of graphs of single layers takes the layer, or modules of it, by its kind.
/// `transformer_engine` takes attention everywhere; with `local`, attn and mlp stand for dense
/// layers.
bool scope_selects(const Cell& cell, std::int32_t layer);

}  // namespace cgconform::matrix
