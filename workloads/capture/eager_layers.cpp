#include "workloads/capture/eager_layers.hpp"

namespace cgconform::workloads {

TensorView EagerLayers::forward(const LayerCall& call, const TensorView& input) {
  Held& held = held_[{call.microbatch, call.layer}];
  held.output = body_.forward(call, mode_, input, held.saved);
  return held.output.view();
}

TensorView EagerLayers::backward(const LayerCall& call, const TensorView& grad_output) {
  Held& held = held_.at({call.microbatch, call.layer});
  held.grad_input = body_.backward(call, mode_, grad_output, held.saved);
  held.saved.clear();
  return held.grad_input.view();
}

void EagerLayers::release(std::int32_t microbatch, const LayerRange& layers) {
  held_.erase(held_.lower_bound({microbatch, layers.first}),
              held_.lower_bound({microbatch, layers.first + layers.count}));
}

const void* EagerLayers::output_address(std::int32_t layer, std::int32_t microbatch) const {
  const auto held = held_.find({microbatch, layer});
  return held == held_.end() ? nullptr : held->second.output.view().data;
}

const void* EagerLayers::grad_input_address(std::int32_t layer, std::int32_t microbatch) const {
  const auto held = held_.find({microbatch, layer});
  return held == held_.end() ? nullptr : held->second.grad_input.view().data;
}

SavedActivations& EagerLayers::saved(std::int32_t layer, std::int32_t microbatch) {
  return held_.at({microbatch, layer}).saved;
}

ExecutionRecord layer_execution(const LayerCall& call, bool forward) {
  return {.step = call.step,
          .microbatch = call.microbatch,
          .layer = call.layer,
          .forward = forward,
          .validation = call.validation,
          .scope = std::string(call.scope)};
}

}  // namespace cgconform::workloads
