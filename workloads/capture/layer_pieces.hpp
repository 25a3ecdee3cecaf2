#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "workloads/capture/capture_plan.hpp"
#include "workloads/capture/layer_body.hpp"

namespace cgconform::workloads {

/// A piece of a layer that is captured or run eagerly as a whole.
struct LayerPiece {
  Layer* module = nullptr;
  std::string_view scope;  ///< empty for the whole layer
  bool opens = true;
  bool closes = true;
  bool captured = false;
  std::int32_t number = 0;           ///< of the layer's pieces, in order of execution
  std::shared_ptr<Layer> section{};  ///< owns the module where it is several of the layer's

  /// The call of this piece that a call of the layer means.
  LayerCall call(const LayerCall& of_layer) const;
};

/// The pieces of a layer in order of execution: the layer itself where all of its modules are
/// captured or none is, else its modules, neighbours that are captured together or run eagerly
/// together as one. `index` counts the layer over the whole model.
std::vector<LayerPiece> pieces_of(Layer& layer, std::int32_t index, const CapturePlan& plan);

}  // namespace cgconform::workloads
