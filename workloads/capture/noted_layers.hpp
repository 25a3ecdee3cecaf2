#pragma once

#include <cstdint>

#include "workloads/capture/capture_window.hpp"
#include "workloads/capture/eager_layers.hpp"

namespace cgconform::workloads {

/// Layers that run eagerly beside graphs, each pass noted as an execution.
class NotedLayers {
 public:
  NotedLayers(LayerBody& body, GraphKeeper& keeper) : layers_(body), keeper_(keeper) {}

  TensorView forward(const LayerCall& call, const TensorView& input);
  TensorView backward(const LayerCall& call, const TensorView& grad_output);
  /// Adds what the call's backward has left; does nothing where that is nothing.
  void add_wgrads(const LayerCall& call);
  void release(std::int32_t microbatch, const LayerRange& layers) {
    layers_.release(microbatch, layers);
  }
  bool keeps_outputs() const { return layers_.keeps_outputs(); }
  void clear() { layers_.clear(); }

 private:
  EagerLayers layers_;
  GraphKeeper& keeper_;
};

}  // namespace cgconform::workloads
