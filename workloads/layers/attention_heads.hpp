#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"

namespace cgconform::workloads {

/// Queries, keys and values.
constexpr std::array<const char*, 3> head_names{"query", "key", "value"};
/// Each [sequences * heads, length, head size]; or, side by side, all in the first, [tokens, 3 *
/// heads * head size], and the others invalid.
using HeadBuffers = std::array<Buffer, 3>;
using HeadViews = std::array<TensorView, 3>;

HeadViews views(const HeadBuffers& heads);
/// Those that a forward has kept.
HeadViews kept_heads(const SavedActivations& saved);
inline bool side_by_side(const HeadViews& heads) {
  return !heads[1].valid();
}

/// What a reader of heads wants.
enum class HeadLayout : std::uint8_t { apart, side_by_side };

/// How attention makes queries, keys and values, of the heads that this rank computes, of its
/// normed input.
class AttentionHeads {
 public:
  virtual ~AttentionHeads() = default;

  /// Side by side where that is wanted and one product makes them so.
  virtual HeadBuffers forward(LayerContext& context, const TensorView& normed, HeadLayout wanted,
                              SavedActivations& saved) const = 0;
  /// After the last reader of the forward: keeps the heads, or gives them back where they will be
  /// computed again.
  virtual void keep_or_discard(LayerContext& context, HeadBuffers heads,
                               SavedActivations& saved) const;
  /// In the backward, before the heads are read.
  virtual void recompute(LayerContext& context, SavedActivations& saved) const;
  /// Gradient of `normed`, from gradients that lie as the heads do.
  virtual Buffer backward(LayerContext& context, HeadBuffers grad_heads, const TensorView& normed,
                          const SavedActivations& saved) const = 0;
  virtual void append_to(std::vector<Parameter>& parameters) const = 0;
};

/// The kind that the shape asks for. Numbers its parameters from the module's first on.
std::unique_ptr<AttentionHeads> make_attention_heads(const TransformerShape& shape,
                                                     const ModuleParameters& made_in);

}  // namespace cgconform::workloads
