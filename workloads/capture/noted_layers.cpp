#include "workloads/capture/noted_layers.hpp"

namespace cgconform::workloads {

TensorView NotedLayers::forward(const LayerCall& call, const TensorView& input) {
  TensorView output;
  keeper_.run_eagerly(layer_execution(call, true), [&] { output = layers_.forward(call, input); });
  return output;
}

TensorView NotedLayers::backward(const LayerCall& call, const TensorView& grad_output) {
  TensorView grad_input;
  keeper_.run_eagerly(layer_execution(call, false),
                      [&] { grad_input = layers_.backward(call, grad_output); });
  return grad_input;
}

void NotedLayers::add_wgrads(const LayerCall& call) {
  if (!layers_.has_wgrads(call)) return;
  keeper_.run_eagerly(wgrad_execution(call), [&] { layers_.add_wgrads(call); });
}

}  // namespace cgconform::workloads
