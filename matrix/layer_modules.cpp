#include "matrix/layer_modules.hpp"

namespace cgconform::matrix {

CudaGraphScope modules_of_layer(const TrainingConfig& config, std::int32_t layer) {
  using M = CudaGraphModule;
  if (!config.is_hybrid_model) return {M::attn, M::mlp};
  switch (config.hybrid_layer_pattern.at(layer)) {
    case HybridLayer::mamba:
      return {M::mamba};
    case HybridLayer::attention:
      return {M::attn};
    case HybridLayer::mlp:
      return {M::mlp};
    case HybridLayer::moe:
      break;
  }
  return {M::moe};
}

CudaGraphScope modules_of_model(const TrainingConfig& config) {
  if (!config.is_hybrid_model) return modules_of_layer(config, 0);
  CudaGraphScope modules;
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    modules = modules | modules_of_layer(config, layer);
  }
  return modules;
}

bool selects_layer(const TrainingConfig& config, std::int32_t layer) {
  const CudaGraphScope scope = config.cuda_graph_scope;
  return scope.empty() || scope.contains(CudaGraphModule::full) ||
         !(scope & modules_of_layer(config, layer)).empty();
}

}  // namespace cgconform::matrix
