#include "suites/recompute_plan.hpp"

#include <algorithm>

#include "matrix/moe_layers.hpp"
#include "suites/layer_parts.hpp"
#include "suites/pipeline_passes.hpp"
#include "suites/planned_pieces.hpp"

namespace cgconform::suites {
namespace {

using matrix::Cell;
using matrix::RecomputeGranularity;
using matrix::RecomputeModule;
using matrix::RecomputeModules;

constexpr std::string_view attention_mask = "dropout_mask:core_attention.dropout";

/// Modules of a layer that selective recompute can name.
RecomputeModules modules_of_layer(const Cell& cell, std::int32_t layer) {
  const std::vector<std::string_view> parts = parts_of_layer(cell, layer);
  const auto has = [&](std::string_view part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  RecomputeModules built{RecomputeModule::layernorm};
  if (has("attn")) {
    built.insert(RecomputeModule::core_attn);
    if (cell.config.multi_latent_attention) built.insert(RecomputeModule::mla_up_proj);
  }
  if (!matrix::is_moe_layer(cell, layer)) {
    if (has("mlp")) built.insert(RecomputeModule::mlp);
    return built;
  }
  built.insert(RecomputeModule::moe);
  built.insert(RecomputeModule::moe_act);
  if (cell.config.moe_shared_expert_intermediate_size) {
    built.insert(RecomputeModule::shared_experts);
  }
  return built;
}

/// Modules that selective recompute names and that these layers have.
RecomputeModules selected_modules(const Cell& cell, const std::vector<LayerSpan>& spans) {
  if (cell.config.recompute_granularity != RecomputeGranularity::selective) return {};
  RecomputeModules built;
  for (const LayerSpan& span : spans) {
    for (std::int32_t i = 0; i < span.count; ++i) {
      built = built | modules_of_layer(cell, span.first + i);
    }
  }
  return cell.config.recompute_modules.value_or(RecomputeModules{RecomputeModule::core_attn}) &
         built;
}

RecomputeModules selected_modules(const Cell& cell) {
  return selected_modules(cell, {{0, cell.config.num_layers}});
}

bool recomputes(const Cell& cell, RecomputeModules selected) {
  return cell.config.recompute_granularity == RecomputeGranularity::full || !selected.empty();
}

bool redraws(const Cell& cell, RecomputeModules selected) {
  const bool attention = cell.config.attention_dropout > 0.0F;
  if (cell.config.recompute_granularity == RecomputeGranularity::full) {
    return attention || cell.config.hidden_dropout > 0.0F;
  }
  return attention && selected.contains(RecomputeModule::core_attn);
}

/// True where the backward of a graph of a layer computes discarded outputs again: those of a norm,
/// of the experts' activation or heads made from latents.
bool discards_outputs(const Cell& cell, const PlannedGraph& graph) {
  const bool experts = matrix::is_moe_layer(cell, graph.layer);
  const auto holds = [&](std::string_view module) { return holds_module(graph.scope, module); };
  const bool norm = holds("attn") || (experts ? holds("moe_router") : holds("mlp"));
  const RecomputeModules selected = selected_modules(cell);
  const std::vector<std::string_view> parts = parts_of_layer(cell, graph.layer);
  const bool attention =
      holds("attn") && std::find(parts.begin(), parts.end(), "attn") != parts.end();
  return (norm && selected.contains(RecomputeModule::layernorm)) ||
         (attention && selected.contains(RecomputeModule::mla_up_proj)) ||
         (experts && holds("moe_experts") && selected.contains(RecomputeModule::moe_act));
}

/// True where the backward of a graph of a layer runs a checkpoint that is not left out while the
/// layer is captured: in 8 bits those of all modules but core attention.
bool runs_checkpoints(const Cell& cell, const PlannedGraph& graph) {
  if (cell.config.fp8 == matrix::Fp8Format::none) return false;
  const RecomputeModules selected = selected_modules(cell) & modules_of_layer(cell, graph.layer);
  const auto holds = [&](std::string_view module) { return holds_module(graph.scope, module); };
  return (holds("mlp") && selected.contains(RecomputeModule::mlp)) ||
         ((holds("moe_router") || holds("moe_experts")) &&
          selected.contains(RecomputeModule::moe)) ||
         (holds("moe_router") && selected.contains(RecomputeModule::shared_experts));
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
  return recomputes(cell, selected_modules(cell));
}

bool stage_recomputes(const Cell& cell, int rank) {
  return recomputes(cell, selected_modules(cell, stage_chunks(cell, rank)));
}

bool graph_recomputes(const Cell& cell, const PlannedGraph& graph, int rank) {
  if (graph.validation || graph.optimizer) return false;
  // The checkpoints of modules run in the backward that needs them.
  if (captures_callable_pair(cell)) return !graph.forward && stage_recomputes(cell, rank);
  // Up to its first read an iteration in parts has run no backward.
  if (graph.part == 0) return false;
  const bool whole_iteration = graph.layer < 0;
  if (whole_iteration) return stage_recomputes(cell, rank);
  if (graph.forward || graph.wgrad) return false;
  return discards_outputs(cell, graph) || runs_checkpoints(cell, graph);
}

bool redraws_masks(const Cell& cell) {
  return redraws(cell, selected_modules(cell));
}

bool stage_redraws_masks(const Cell& cell, int rank) {
  return redraws(cell, selected_modules(cell, stage_chunks(cell, rank)));
}

bool redraws_mask(const Cell& cell, std::int32_t layer, std::string_view tensor,
                  bool attention_replayed) {
  if (is_recomputed_layer(cell, layer)) return true;
  return tensor == attention_mask && !attention_replayed &&
         selected_modules(cell).contains(RecomputeModule::core_attn);
}

}  // namespace cgconform::suites
