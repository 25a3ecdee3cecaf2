#include "workloads/layers/transformer_layer.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/mamba_mixer.hpp"
#include "workloads/layers/mlp.hpp"
#include "workloads/layers/self_attention.hpp"

namespace cgconform::workloads {

void ModularLayer::append(std::string_view scope, std::unique_ptr<Layer> module) {
  const std::span<const Parameter> added = module->parameters();
  parameters_.insert(parameters_.end(), added.begin(), added.end());
  modules_.push_back({scope, module.get()});
  owned_.push_back(std::move(module));
}

Buffer forward_modules(std::span<const LayerModule> modules, LayerContext& context,
                       const TensorView& input, SavedActivations& saved) {
  Buffer last;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    Layer& module = *modules[i].layer;
    Buffer output = module.forward(context, i == 0 ? input : last.view(), saved);
    // A norm that is computed again reads its input once more.
    const bool read_again =
        module.reads_input_again() || recomputes(context, matrix::RecomputeModule::layernorm);
    if (i > 0 && read_again) {
      keep(context, saved, std::string(modules[i - 1].scope) + ".output", std::move(last));
    }
    last = std::move(output);
  }
  return last;
}

Buffer backward_modules(std::span<const LayerModule> modules, LayerContext& context,
                        const TensorView& grad_output, SavedActivations& saved) {
  Buffer last;
  for (std::size_t i = modules.size(); i > 0; --i) {
    Buffer grad_input = modules[i - 1].layer->backward(
        context, i == modules.size() ? grad_output : last.view(), saved);
    keep_for_wgrads(context, last);
    last = std::move(grad_input);
  }
  return last;
}

bool any_delays_wgrads(std::span<const LayerModule> modules) {
  return std::any_of(modules.begin(), modules.end(),
                     [](const LayerModule& module) { return module.layer->can_delay_wgrads(); });
}

LayerSection::LayerSection(std::span<const LayerModule> modules) : modules_(modules) {
  for (const LayerModule& module : modules) {
    if (!scope_.empty()) scope_ += '+';
    scope_ += module.scope;
    const std::span<const Parameter> added = module.layer->parameters();
    parameters_.insert(parameters_.end(), added.begin(), added.end());
  }
}

TransformerLayer::TransformerLayer(const std::string& name, const TransformerShape& shape,
                                   const ModuleParameters& made_in)
    : ModularLayer(name) {
  ModuleParameters of_mlp = made_in;
  of_mlp.first_number += parameters_a_module;
  append("attn", std::make_unique<SelfAttention>(name, shape, made_in));
  append("mlp", std::make_unique<Mlp>(name, shape, of_mlp));
}

HybridModelLayer::HybridModelLayer(const std::string& name, matrix::CudaGraphModule module,
                                   const TransformerShape& shape, const ModuleParameters& made_in)
    : ModularLayer(name) {
  switch (module) {
    case matrix::CudaGraphModule::mamba:
      append("mamba", std::make_unique<MambaMixer>(name, shape, made_in));
      return;
    case matrix::CudaGraphModule::attn:
      append("attn", std::make_unique<SelfAttention>(name, shape, made_in));
      return;
    case matrix::CudaGraphModule::mlp:
      append("mlp", std::make_unique<Mlp>(name, shape, made_in));
      return;
    default:
      throw InternalError("a layer of a hybrid model is attention, an MLP or Mamba");
  }
}

std::unique_ptr<Layer> make_layer(const std::string& name, matrix::CudaGraphScope modules,
                                  const TransformerShape& shape, const ModuleParameters& made_in) {
  using M = matrix::CudaGraphModule;
  for (const M module : {M::mamba, M::attn, M::mlp}) {
    if (modules != matrix::CudaGraphScope{module}) continue;
    return std::make_unique<HybridModelLayer>(name, module, shape, made_in);
  }
  return std::make_unique<TransformerLayer>(name, shape, made_in);
}

}  // namespace cgconform::workloads
