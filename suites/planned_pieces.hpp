#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"

namespace cgconform::suites {

/// A part of a layer that runs as a whole, from a graph or eagerly.
struct PlannedPiece {
  std::string scope;  ///< modules of the layer, "attn+moe_router"; empty for the whole layer
  bool captured = false;
};

/// What graphs of single layers make of a layer, in order of execution. A scope of `local` selects
/// the kinds of layers that get graphs: the empty one all, attn and mlp the dense ones, moe those
/// with experts; moe_router and moe_preprocess graph what lies before and after the experts. A
/// scope of `transformer_engine` names modules; neighbours are one piece. A layer that is captured
/// completely, or not at all, is one piece; so is one of a hybrid model, which has one module.
/// Derived from these rules, without the code that does
/// it.
std::vector<PlannedPiece> planned_pieces(const matrix::Cell& cell, std::int32_t layer);

/// True where graphs of single layers hold a part of the layer, which the cell's shape names.
bool captures_layer(const matrix::Cell& cell, std::int32_t layer);

/// True where the backward of this piece of a layer leaves weight gradients for later: those of the
/// linear layers of attention, MLPs and experts, shared ones included, where the cell delays them.
bool leaves_wgrads(const matrix::Cell& cell, std::int32_t layer, std::string_view scope);

/// True where a piece of `scope` holds the module.
bool holds_module(std::string_view scope, std::string_view module);

}  // namespace cgconform::suites
