#pragma once

#include <array>
#include <memory>
#include <vector>

#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"

namespace cgconform::workloads {

/// Queries, keys and values.
constexpr std::array<const char*, 3> head_names{"query", "key", "value"};
using HeadBuffers = std::array<Buffer, 3>;

/// How attention makes queries, keys and values of its normed input: each [sequences * heads,
/// length, head size], of the heads that this rank computes.
class AttentionHeads {
 public:
  virtual ~AttentionHeads() = default;

  virtual HeadBuffers forward(LayerContext& context, const TensorView& normed,
                              SavedActivations& saved) const = 0;
  /// After the last reader of the forward: keeps the heads, or gives them back where they will be
  /// computed again.
  virtual void keep_or_discard(LayerContext& context, HeadBuffers heads,
                               SavedActivations& saved) const;
  /// In the backward, before the heads are read.
  virtual void recompute(LayerContext& context, SavedActivations& saved) const;
  /// Gradient of `normed`.
  virtual Buffer backward(LayerContext& context, const HeadBuffers& grad_heads,
                          const TensorView& normed, const SavedActivations& saved) const = 0;
  virtual void append_to(std::vector<Parameter>& parameters) const = 0;
};

/// The kind that the shape asks for. Numbers its parameters from the module's first on.
std::unique_ptr<AttentionHeads> make_attention_heads(const TransformerShape& shape,
                                                     const ModuleParameters& made_in);

}  // namespace cgconform::workloads
