#include "matrix/moe_layers.hpp"

#include <algorithm>
#include <initializer_list>

#include "matrix/layer_modules.hpp"

namespace cgconform::matrix {

bool has_experts(const Cell& cell) {
  const TrainingConfig& config = cell.config;
  if (config.num_moe_experts.value_or(1) <= 1) return false;
  return !config.is_hybrid_model || modules_of_model(config).contains(CudaGraphModule::moe);
}

bool scope_selects(const Cell& cell, std::int32_t layer) {
  if (cell.config.is_hybrid_model) return selects_layer(cell.config, layer);
  const CudaGraphScope scope = cell.config.cuda_graph_scope;
  const auto names_any = [scope](std::initializer_list<CudaGraphModule> modules) {
    return std::any_of(modules.begin(), modules.end(),
                       [scope](CudaGraphModule module) { return scope.contains(module); });
  };
  if (scope.empty() || scope.contains(CudaGraphModule::full)) return true;
  const bool attention = scope.contains(CudaGraphModule::attn);
  if (!is_moe_layer(cell, layer)) return attention || scope.contains(CudaGraphModule::mlp);
  const bool callables = cell.config.cuda_graph_impl == CudaGraphImpl::transformer_engine;
  return (callables && attention) || names_any({CudaGraphModule::moe, CudaGraphModule::moe_router,
                                                CudaGraphModule::moe_preprocess});
}

bool is_moe_layer(const Cell& cell, std::int32_t layer) {
  if (cell.config.is_hybrid_model) {
    return modules_of_layer(cell.config, layer).contains(CudaGraphModule::moe);
  }
  if (!has_experts(cell)) return false;
  const MoeLayerFreq& freq = cell.config.moe_layer_freq;
  if (freq.pattern_length == 0) return freq.every >= 1 && layer % freq.every == 0;
  return layer < freq.pattern_length && freq.pattern_at(layer);
}

}  // namespace cgconform::matrix
