#include "workloads/capture/layer_pieces.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "workloads/layers/transformer_layer.hpp"

namespace cgconform::workloads {

LayerCall LayerPiece::call(const LayerCall& of_layer) const {
  LayerCall piece = of_layer;
  piece.module = module;
  piece.scope = scope;
  piece.opens = opens;
  piece.closes = closes;
  piece.piece = number;
  return piece;
}

std::vector<LayerPiece> pieces_of(Layer& layer, std::int32_t index, const CapturePlan& plan) {
  const std::vector<std::string>& captured =
      plan.captured_modules.at(static_cast<std::size_t>(index));
  const auto is_captured = [&](const LayerModule& module) {
    return std::find(captured.begin(), captured.end(), module.scope) != captured.end();
  };
  const std::span<const LayerModule> modules = layer.modules();
  const auto count = std::count_if(modules.begin(), modules.end(), is_captured);
  if (count == 0 || count == static_cast<std::ptrdiff_t>(modules.size())) {
    return {{.module = &layer, .captured = count != 0}};
  }
  std::vector<LayerPiece> pieces;
  for (std::size_t begin = 0; begin < modules.size();) {
    std::size_t end = begin + 1;
    while (end < modules.size() && is_captured(modules[end]) == is_captured(modules[begin])) ++end;
    LayerPiece piece{.module = modules[begin].layer,
                     .scope = modules[begin].scope,
                     .opens = begin == 0,
                     .closes = end == modules.size(),
                     .captured = is_captured(modules[begin]),
                     .number = static_cast<std::int32_t>(pieces.size())};
    if (end - begin > 1) {
      piece.section = std::make_shared<LayerSection>(modules.subspan(begin, end - begin));
      piece.module = piece.section.get();
      piece.scope = piece.section->name();
    }
    pieces.push_back(std::move(piece));
    begin = end;
  }
  return pieces;
}

}  // namespace cgconform::workloads
