#include "suites/planned_pieces.hpp"

#include <algorithm>

#include "matrix/moe_layers.hpp"
#include "suites/layer_parts.hpp"
#include "suites/pipeline_passes.hpp"

namespace cgconform::suites {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;

/// A module of a layer and whether it is captured.
struct Module {
  std::string_view scope;
  bool captured = false;
};

std::vector<Module> modules_of(const matrix::Cell& cell, std::int32_t layer) {
  const matrix::CudaGraphScope scope = cell.config.cuda_graph_scope;
  const bool all = scope.empty() || scope.contains(CudaGraphModule::full);
  const auto names = [&](CudaGraphModule module) { return all || scope.contains(module); };
  const bool local = cell.config.cuda_graph_impl == CudaGraphImpl::local;
  const bool attention = names(CudaGraphModule::attn);
  if (cell.config.is_hybrid_model) {
    std::vector<Module> modules;
    for (const std::string_view part : parts_of_layer(cell, layer)) {
      modules.push_back({part, scope_names_part(cell, part)});
    }
    return modules;
  }
  if (!matrix::is_moe_layer(cell, layer)) {
    const bool mlp = names(CudaGraphModule::mlp);
    if (local) return {{"attn", attention || mlp}, {"mlp", attention || mlp}};
    return {{"attn", attention}, {"mlp", mlp}};
  }
  const bool moe = names(CudaGraphModule::moe);
  const bool router = names(CudaGraphModule::moe_router);
  const bool preprocess = names(CudaGraphModule::moe_preprocess);
  if (local) {
    const bool around = moe || router || preprocess;
    return {{"attn", moe},
            {"moe_router", around},
            {"moe_preprocess", around},
            {"moe_experts", moe},
            {"moe_postprocess", around}};
  }
  return {{"attn", attention},
          {"moe_router", moe || router},
          {"moe_preprocess", moe || preprocess},
          {"moe_experts", moe},
          {"moe_postprocess", moe}};
}

}  // namespace

std::vector<PlannedPiece> planned_pieces(const matrix::Cell& cell, std::int32_t layer) {
  std::vector<PlannedPiece> pieces;
  bool started = false;
  for (const Module& module : modules_of(cell, layer)) {
    if (started && pieces.back().captured == module.captured) {
      pieces.back().scope += '+';
      pieces.back().scope += module.scope;
    } else {
      pieces.push_back({std::string(module.scope), module.captured});
      started = true;
    }
  }
  if (pieces.size() == 1) pieces.front().scope.clear();
  return pieces;
}

bool captures_layer(const matrix::Cell& cell, std::int32_t layer) {
  if (!has_graphs(cell, layer)) return false;
  const std::vector<PlannedPiece> pieces = planned_pieces(cell, layer);
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const PlannedPiece& piece) { return piece.captured; });
}

bool leaves_wgrads(const matrix::Cell& cell, std::int32_t layer, std::string_view scope) {
  if (!cell.config.delay_wgrad_compute) return false;
  const std::vector<Module> modules = modules_of(cell, layer);
  return std::any_of(modules.begin(), modules.end(), [&](const Module& module) {
    if (!holds_module(scope, module.scope)) return false;
    if (module.scope == "moe_router") {
      return cell.config.moe_shared_expert_intermediate_size.has_value();
    }
    return module.scope == "attn" || module.scope == "mlp" || module.scope == "mamba" ||
           module.scope == "moe_experts";
  });
}

bool holds_module(std::string_view scope, std::string_view module) {
  if (scope.empty()) return true;
  while (true) {
    const std::size_t plus = scope.find('+');
    if (scope.substr(0, plus) == module) return true;
    if (plus == std::string_view::npos) return false;
    scope.remove_prefix(plus + 1);
  }
}

}  // namespace cgconform::suites
