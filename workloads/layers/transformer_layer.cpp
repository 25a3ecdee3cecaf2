#include "workloads/layers/transformer_layer.hpp"

#include <cstddef>
#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/mlp.hpp"
#include "workloads/layers/self_attention.hpp"

namespace cgconform::workloads {

void ModularLayer::append(std::string_view scope, std::unique_ptr<Layer> module) {
  const std::span<const Parameter> added = module->parameters();
  parameters_.insert(parameters_.end(), added.begin(), added.end());
  modules_.push_back({scope, module.get()});
  owned_.push_back(std::move(module));
}

Buffer ModularLayer::forward(LayerContext& context, const TensorView& input,
                             SavedActivations& saved) {
  Buffer last;
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    Buffer output = modules_[i].layer->forward(context, i == 0 ? input : last.view(), saved);
    // A norm that is computed again reads its input once more.
    if (i > 0 && recomputes(context, matrix::RecomputeModule::layernorm)) {
      keep(context, saved, std::string(modules_[i - 1].scope) + ".output", std::move(last));
    }
    last = std::move(output);
  }
  return last;
}

Buffer ModularLayer::backward(LayerContext& context, const TensorView& grad_output,
                              SavedActivations& saved) {
  Buffer last;
  for (std::size_t i = modules_.size(); i > 0; --i) {
    last = modules_[i - 1].layer->backward(context,
                                           i == modules_.size() ? grad_output : last.view(), saved);
  }
  return last;
}

TransformerLayer::TransformerLayer(const std::string& name, const TransformerShape& shape,
                                   const ModuleParameters& made_in)
    : ModularLayer(name) {
  ModuleParameters of_mlp = made_in;
  of_mlp.first_number += parameters_a_module;
  append("attn", std::make_unique<SelfAttention>(name, shape, made_in));
  append("mlp", std::make_unique<Mlp>(name, shape, of_mlp));
}

}  // namespace cgconform::workloads
