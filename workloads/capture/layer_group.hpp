#pragma once

#include <cstdint>
#include <optional>

#include "matrix/cell.hpp"

namespace cgconform::workloads {

/// Neighbouring layers of one model chunk that are recomputed together, both ends included. Layers
/// count over the whole model.
struct LayerGroup {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// The group of a layer under full recompute; nothing where the layer keeps its activations. Method
/// uniform cuts each chunk into groups of `recompute_num_layers`; block makes the first
/// `recompute_num_layers` layers of each chunk a group each.
std::optional<LayerGroup> recomputed_group(const matrix::Cell& cell, std::int32_t layer);

}  // namespace cgconform::workloads
