#include "workloads/capture/eager_layers.hpp"

#include <optional>

#include "workloads/capture/wgrad_faults.hpp"
#include "workloads/layers/checkpoint.hpp"

namespace cgconform::workloads {

TensorView EagerLayers::forward(const LayerCall& call, const TensorView& input) {
  Held& held = held_[key_of(call)];
  held.call = call;
  held.input = input;
  if (const auto group =
          call.validation ? std::nullopt : recomputed_group(body_.leg().cell, call.layer)) {
    forward_in_group(held, *group);
  } else {
    held.output = body_.forward(call, mode_, input, held.saved);
  }
  return held.output.view();
}

void EagerLayers::forward_in_group(Held& held, const LayerGroup& group) {
  LegContext& leg = body_.leg();
  if (held.call.layer == group.first) {
    held.rng_state = save_rng_state(leg.stream(), leg.allocator(), mode_.pool, leg.rng,
                                    held.call.label() + " keep random state");
  }
  LayerCall call = held.call;
  call.activations = Activations::dropped;
  SavedActivations dropped;
  held.output = body_.forward(call, mode_, held.input, dropped);
  if (call.layer > group.first) held_.at({call.microbatch, call.layer - 1, 0}).output.reset();
}

void EagerLayers::recompute(const LayerGroup& group, std::int32_t microbatch) {
  if (take_recomputed(group, microbatch)) return;
  LegContext& leg = body_.leg();
  const Held& first = held_.at({microbatch, group.first, 0});
  LayerCall call = first.call;
  call.activations = Activations::recomputed;
  std::optional<EarlierRngState> earlier;
  const bool live_counter = mode_.capturing && leg.fault(Fault::f09a_live_counter);
  if (!live_counter) {
    earlier.emplace(leg.stream(), leg.allocator(), mode_.pool, leg.rng, first.rng_state.view(),
                    call.label());
  }
  Buffer output;
  TensorView value = first.input;
  for (std::int32_t layer = group.first; layer <= group.last; ++layer) {
    Held& held = held_.at({microbatch, layer, 0});
    call.module = held.call.module;
    call.layer = layer;
    output = body_.forward(call, mode_, value, held.saved);
    value = output.view();
    body_.observe_recomputed_masks(call, held.saved);
  }
  if (earlier) earlier->put_back();
}

bool EagerLayers::take_recomputed(const LayerGroup& group, std::int32_t microbatch) {
  if (!mode_.capturing || !body_.leg().fault(Fault::f09b_recompute_skipped)) return false;
  if (recomputed_before_.find(group.first) == recomputed_before_.end()) return false;
  for (std::int32_t layer = group.first; layer <= group.last; ++layer) {
    Held& held = held_.at({microbatch, layer, 0});
    held.saved = std::move(recomputed_before_.at(layer));
    body_.observe_recomputed_masks(held.call, held.saved);
  }
  return true;
}

TensorView EagerLayers::backward(const LayerCall& call, const TensorView& grad_output) {
  const auto group = recomputed_group(body_.leg().cell, call.layer);
  if (group && call.layer == group->last) recompute(*group, call.microbatch);
  Held& held = held_.at(key_of(call));
  held.delayed.clear();
  held.grad_input = body_.backward(call, mode_, grad_output, held.saved, &held.delayed);
  if (group && mode_.capturing && body_.leg().fault(Fault::f09b_recompute_skipped)) {
    recomputed_before_[call.layer] = std::move(held.saved);
  }
  if (held.delayed.left().empty()) held.saved.clear();
  return held.grad_input.view();
}

void EagerLayers::add_wgrads(const LayerCall& call) {
  Held& held = held_.at(key_of(call));
  const std::int32_t times = mode_.capturing ? WgradFaults(body_.leg()).times() : 1;
  for (std::int32_t i = 0; i < times; ++i) body_.add_wgrads(call, mode_, held.delayed);
  body_.set_grad_added(call.layer, true);
  held.delayed.clear();
  held.saved.clear();
}

void EagerLayers::clear() {
  held_.clear();
  recomputed_before_.clear();
}

void EagerLayers::release(std::int32_t microbatch, const LayerRange& layers) {
  held_.erase(held_.lower_bound({microbatch, layers.first, 0}),
              held_.lower_bound({microbatch, layers.first + layers.count, 0}));
}

bool EagerLayers::keeps_outputs() const {
  return body_.leg().cell.config.recompute_granularity != matrix::RecomputeGranularity::full;
}

const void* EagerLayers::output_address(const LayerCall& call) const {
  const auto held = held_.find(key_of(call));
  return held == held_.end() ? nullptr : held->second.output.view().data;
}

const void* EagerLayers::grad_input_address(const LayerCall& call) const {
  const auto held = held_.find(key_of(call));
  return held == held_.end() ? nullptr : held->second.grad_input.view().data;
}

ExecutionRecord layer_execution(const LayerCall& call, bool forward) {
  return {.step = call.step,
          .microbatch = call.microbatch,
          .layer = call.layer,
          .forward = forward,
          .validation = call.validation,
          .scope = std::string(call.scope)};
}

ExecutionRecord wgrad_execution(const LayerCall& call) {
  ExecutionRecord execution = layer_execution(call, false);
  execution.wgrad = true;
  return execution;
}

}  // namespace cgconform::workloads
