#include "suites/layer_parts.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace cgconform::suites {
namespace {

using matrix::CudaGraphModule;

constexpr std::array<std::pair<std::string_view, CudaGraphModule>, 6> part_names{{
    {"attn", CudaGraphModule::attn},
    {"mlp", CudaGraphModule::mlp},
    {"mamba", CudaGraphModule::mamba},
    {"moe", CudaGraphModule::moe},
    {"moe_router", CudaGraphModule::moe_router},
    {"moe_preprocess", CudaGraphModule::moe_preprocess},
}};

}  // namespace

std::vector<std::string_view> parts_of_layer(const matrix::Cell& cell, std::int32_t layer) {
  if (!cell.config.is_hybrid_model) return {"attn", "mlp"};
  const bool experts = cell.config.num_moe_experts.value_or(0) > 1;
  const std::string_view repeated = experts ? "M*ME" : "M*M-";
  const matrix::HybridPattern& pattern = cell.config.hybrid_layer_pattern;
  const char letter =
      pattern.length == 0
          ? repeated[static_cast<std::size_t>(layer) % repeated.size()]
          : matrix::HybridPattern::letters[static_cast<std::size_t>(pattern.at(layer))];
  if (letter == '*') return {"attn"};
  if (letter == '-') return {"mlp"};
  if (letter == 'M') return {"mamba"};
  return {"moe"};
}

bool model_has_part(const matrix::Cell& cell, std::string_view part) {
  for (std::int32_t layer = 0; layer < cell.config.num_layers; ++layer) {
    const std::vector<std::string_view> parts = parts_of_layer(cell, layer);
    if (std::find(parts.begin(), parts.end(), part) != parts.end()) return true;
  }
  return false;
}

bool scope_names_part(const matrix::Cell& cell, std::string_view part) {
  const matrix::CudaGraphScope scope = cell.config.cuda_graph_scope;
  if (scope.empty() || scope.contains(CudaGraphModule::full)) return true;
  return std::any_of(part_names.begin(), part_names.end(), [&](const auto& named) {
    return named.first == part && scope.contains(named.second);
  });
}

}  // namespace cgconform::suites
