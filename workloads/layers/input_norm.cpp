#include "workloads/layers/input_norm.hpp"

#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/layer_ops.hpp"

namespace cgconform::workloads {

using matrix::RecomputeModule;

InputNorm::InputNorm(std::string name, std::int64_t hidden, const ModuleParameters& made_in,
                     std::uint64_t number)
    : name_(std::move(name)),
      weight_(made_in.store.add(name_ + ".weight", {hidden}, norm_weight_init,
                                made_in.first_number + number)),
      bias_(made_in.store.add(name_ + ".bias", {hidden}, bias_init,
                              made_in.first_number + number + 1)) {
  weight_.partial_gradient = made_in.tensor.shares_rows();
  bias_.partial_gradient = weight_.partial_gradient;
}

Buffer InputNorm::forward(LayerContext& context, const TensorView& input,
                          SavedActivations& saved) const {
  return checkpoint(context, RecomputeModule::layernorm, saved, name_,
                    [&](LayerContext& run, SavedActivations& kept) {
                      return norm_forward(run, input, weight_, bias_, kept, name_);
                    });
}

void InputNorm::keep_or_discard(LayerContext& context, const TensorView& input, Buffer normed,
                                SavedActivations& saved) const {
  if (recomputes(context, RecomputeModule::layernorm)) {
    saved.borrow(name_ + ".input", input);
  } else {
    keep(context, saved, name_ + ".output", std::move(normed));
  }
}

void InputNorm::recompute_output(LayerContext& context, SavedActivations& saved) const {
  recompute(context, saved, name_, [&](LayerContext& again) {
    Buffer normed = norm_forward(again, saved.at(name_ + ".input"), weight_, bias_, saved, name_);
    saved.keep(name_ + ".output", std::move(normed));
  });
}

Buffer InputNorm::backward(LayerContext& context, const TensorView& grad_normed,
                           const TensorView& past_module, const SavedActivations& saved) const {
  return norm_backward(context, grad_normed, weight_, bias_, saved, name_, past_module);
}

}  // namespace cgconform::workloads
