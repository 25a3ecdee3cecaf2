#include "suites/recompute_plan.hpp"

#include <algorithm>

#include "suites/pipeline_passes.hpp"

namespace cgconform::suites {
namespace {

using matrix::Cell;
using matrix::RecomputeGranularity;
using matrix::RecomputeModule;
using matrix::RecomputeModules;

constexpr std::string_view attention_mask = "dropout_mask:core_attention.dropout";

/// Modules of a dense layer that selective recompute names.
RecomputeModules selected_modules(const Cell& cell) {
  if (cell.config.recompute_granularity != RecomputeGranularity::selective) return {};
  const RecomputeModules dense{RecomputeModule::core_attn, RecomputeModule::mlp,
                               RecomputeModule::layernorm};
  return cell.config.recompute_modules.value_or(RecomputeModules{RecomputeModule::core_attn}) &
         dense;
}

/// Under full recompute: method uniform takes all layers, block the first ones of each model chunk.
bool is_recomputed_layer(const Cell& cell, std::int32_t layer) {
  if (cell.config.recompute_granularity != RecomputeGranularity::full) return false;
  if (cell.config.recompute_method != matrix::RecomputeMethod::block) return true;
  const std::int32_t chunks = cell.config.pipeline_model_parallel_size * chunk_count(cell);
  const std::int32_t layers = std::max(cell.config.num_layers / chunks, 1);
  return layer % layers < cell.config.recompute_num_layers.value_or(1);
}

}  // namespace

bool asks_for_recompute(const Cell& cell) {
  return cell.config.recompute_granularity == RecomputeGranularity::full ||
         !selected_modules(cell).empty();
}

bool graph_recomputes(const Cell& cell, const PlannedGraph& graph) {
  if (graph.validation || graph.optimizer) return false;
  const bool whole_iteration = graph.layer < 0;
  if (whole_iteration) return asks_for_recompute(cell);
  return !graph.forward && selected_modules(cell).contains(RecomputeModule::layernorm);
}

bool redraws_masks(const Cell& cell) {
  const bool attention = cell.config.attention_dropout > 0.0F;
  if (cell.config.recompute_granularity == RecomputeGranularity::full) {
    return attention || cell.config.hidden_dropout > 0.0F;
  }
  return attention && selected_modules(cell).contains(RecomputeModule::core_attn);
}

bool redraws_mask(const Cell& cell, std::int32_t layer, std::string_view tensor,
                  bool attention_replayed) {
  if (is_recomputed_layer(cell, layer)) return true;
  return tensor == attention_mask && !attention_replayed &&
         selected_modules(cell).contains(RecomputeModule::core_attn);
}

}  // namespace cgconform::suites
