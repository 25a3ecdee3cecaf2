#include "matrix/layer_modules.hpp"

namespace cgconform::matrix {
namespace {

/// Without a pattern, a model with experts has them in the place of MLPs.
HybridLayer hybrid_layer(const TrainingConfig& config, std::int32_t layer) {
  const HybridLayer kind = config.hybrid_layer_pattern.at(layer);
  const bool experts =
      config.hybrid_layer_pattern.empty() && config.num_moe_experts.value_or(1) > 1;
  return experts && kind == HybridLayer::mlp ? HybridLayer::moe : kind;
}

}  // namespace

CudaGraphScope modules_of_layer(const TrainingConfig& config, std::int32_t layer) {
  using M = CudaGraphModule;
  if (!config.is_hybrid_model) return {M::attn, M::mlp};
  switch (hybrid_layer(config, layer)) {
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
  if (scope.empty() || scope.contains(CudaGraphModule::full)) return true;
  const CudaGraphScope held = modules_of_layer(config, layer);
  const bool parts_of_experts =
      held.contains(CudaGraphModule::moe) &&
      scope.contains_any({CudaGraphModule::moe_router, CudaGraphModule::moe_preprocess});
  return parts_of_experts || scope.contains_any(held);
}

}  // namespace cgconform::matrix
