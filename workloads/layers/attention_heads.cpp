#include "workloads/layers/attention_heads.hpp"

#include <cstddef>
#include <utility>

#include "workloads/layers/latent_heads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/qkv_heads.hpp"

namespace cgconform::workloads {

namespace {

/// Under which heads are kept that lie side by side.
constexpr const char* rows_name = "query, key, value";

}  // namespace

HeadViews views(const HeadBuffers& heads) {
  return {heads[0].view(), heads[1].view(), heads[2].view()};
}

HeadViews kept_heads(const SavedActivations& saved) {
  if (saved.contains(rows_name)) return {saved.at(rows_name), {}, {}};
  return {saved.at(head_names[0]), saved.at(head_names[1]), saved.at(head_names[2])};
}

void AttentionHeads::keep_or_discard(LayerContext& context, HeadBuffers heads,
                                     SavedActivations& saved) const {
  if (side_by_side(views(heads))) return keep(context, saved, rows_name, std::move(heads[0]));
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
