#include "workloads/layers/checkpoint.hpp"

namespace cgconform::workloads {

EarlierRngState::EarlierRngState(Stream& stream, CachingAllocator& allocator, PoolId pool,
                                 const RngState& rng, const TensorView& earlier, std::string label)
    : stream_(stream), rng_(rng), label_(std::move(label)) {
  current_ = save_rng_state(stream, allocator, pool, rng, label_ + " keep random state");
  restore_rng_state(stream, rng, earlier, label_ + " random state of the forward");
}

void EarlierRngState::put_back() {
  restore_rng_state(stream_, rng_, current_.view(), label_ + " put random state back");
}

std::string_view mask_name(std::string_view activation) {
  constexpr std::string_view suffix = ".mask";
  if (!activation.ends_with(suffix)) return {};
  return activation.substr(0, activation.size() - suffix.size());
}

bool recomputes(const LayerContext& context, matrix::RecomputeModule module) {
  return context.training && context.recompute.contains(module);
}

LayerContext recompute_context(const LayerContext& context) {
  LayerContext again = context;
  again.label += ' ';
  again.label += recompute_label;
  again.tap = nullptr;
  again.recompute = {};
  again.recomputing = true;
  return again;
}

void tap_recomputed_masks(const LayerContext& context, const SavedActivations& saved,
                          std::size_t from) {
  if (context.tap == nullptr) return;
  for (const auto& [name, buffer] : saved.all().subspan(from)) {
    const std::string_view mask = mask_name(name);
    if (mask.empty()) continue;
    std::string tensor(recomputed_prefix);
    tensor += "dropout_mask:";
    tensor += mask;
    context.tap->tap(tensor, buffer.view());
  }
}

}  // namespace cgconform::workloads
