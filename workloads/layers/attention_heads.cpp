#include "workloads/layers/attention_heads.hpp"

#include <cstddef>
#include <utility>

#include "workloads/layers/latent_heads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/qkv_heads.hpp"

namespace cgconform::workloads {

void AttentionHeads::keep_or_discard(LayerContext& context, HeadBuffers heads,
                                     SavedActivations& saved) const {
  for (std::size_t part = 0; part < heads.size(); ++part) {
    keep(context, saved, head_names[part], std::move(heads[part]));
  }
}

void AttentionHeads::recompute(LayerContext& /*context*/, SavedActivations& /*saved*/) const {}

std::unique_ptr<AttentionHeads> make_attention_heads(const TransformerShape& shape,
                                                     const ModuleParameters& made_in) {
  if (shape.latent) return std::make_unique<LatentHeads>(shape, made_in);
  return std::make_unique<QkvHeads>(shape, made_in);
}

}  // namespace cgconform::workloads
