#include "suites/planned_pieces.hpp"

#include <algorithm>

#include "matrix/moe_layers.hpp"
#include "suites/layer_parts.hpp"
#include "suites/pipeline_passes.hpp"

namespace cgconform::suites {
namespace {

using matrix::CudaGraphImpl;

/// A module of a layer and whether it is captured.
struct Module {
  std::string_view scope;
  bool captured = false;
};

/// Of a layer with experts, the attention of which hybrid models leave out.
std::vector<Module> modules_with_experts(const matrix::Cell& cell) {
  const bool local = cell.config.cuda_graph_impl == CudaGraphImpl::local;
  const auto names = [&](std::string_view part) { return scope_names_part(cell, part); };
  const bool moe = names("moe");
  const bool router = names("moe_router");
  const bool preprocess = names("moe_preprocess");
  std::vector<Module> modules;
  if (!cell.config.is_hybrid_model) modules.push_back({"attn", local ? moe : names("attn")});
  const bool around = local && (moe || router || preprocess);
  modules.insert(modules.end(), {{"moe_router", around || moe || router},
                                 {"moe_preprocess", around || moe || preprocess},
                                 {"moe_experts", moe},
                                 {"moe_postprocess", around || moe}});
  return modules;
}

std::vector<Module> modules_of(const matrix::Cell& cell, std::int32_t layer) {
  if (matrix::is_moe_layer(cell, layer)) return modules_with_experts(cell);
  const std::vector<std::string_view> parts = parts_of_layer(cell, layer);
  // A scope of `local` takes a layer whole.
  const bool whole = cell.config.cuda_graph_impl == CudaGraphImpl::local &&
                     std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
                       return scope_names_part(cell, part);
                     });
  std::vector<Module> modules;
  for (const std::string_view part : parts) {
    modules.push_back({part, whole || scope_names_part(cell, part)});
  }
  return modules;
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
