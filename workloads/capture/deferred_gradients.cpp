#include "workloads/capture/deferred_gradients.hpp"

#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

void DeferredGradients::hand_out(const LayerCall& call) {
  if (!on_) return;
  const auto before = pending_.find(call.layer);
  if (before != pending_.end()) use(before->second);
  pending_[call.layer] = call;
}

void DeferredGradients::use(const LayerCall& call) {
  Stream& stream = context_.stream();
  for (const Parameter& parameter : call.module->parameters()) {
    const TensorView& slot = parameter.main_grad;
    context_.recorder.hash(SlotKind::weight_grad, SlotMoment::use,
                           call.at("main_grad:" + parameter.name), slot);
    Buffer& sum = sums_[{call.layer, parameter.name}];
    if (!sum.valid()) {
      sum = Buffer(context_.allocator(), stream, default_pool, slot.dtype, slot.shape,
                   "gradient sum");
      stream.fill(sum.view(), 0, "gradient sum");
    }
    accumulate(stream, sum.view(), slot, "add handed-out gradient");
  }
}

void DeferredGradients::finish() {
  for (const auto& [layer, call] : pending_) {
    use(call);
    for (const Parameter& parameter : call.module->parameters()) {
      const Buffer& sum = sums_.at({layer, parameter.name});
      context_.stream().copy(parameter.main_grad, sum.view(), "gradient sum");
      context_.stream().fill(sum.view(), 0, "gradient sum");
    }
  }
  pending_.clear();
}

}  // namespace cgconform::workloads
