#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "workloads/layers/layer.hpp"

/// Recompute: a checkpointed part of a layer keeps no activations in its forward. Its backward runs
/// the forward again, from the same inputs and with the random numbers of then.
namespace cgconform::workloads {

/// Stands in the label of every op that recompute adds to a backward.
constexpr std::string_view recompute_label = "recompute";
/// Name under which a mask drawn again is tapped, before the name of its first drawing.
constexpr std::string_view recomputed_prefix = "recomputed ";

/// Puts an earlier random state in place, on the device, until `put_back`.
class EarlierRngState {
 public:
  EarlierRngState(Stream& stream, CachingAllocator& allocator, PoolId pool, const RngState& rng,
                  const TensorView& earlier, std::string label);
  /// The state of before, as if nothing had been drawn since.
  void put_back();

 private:
  Stream& stream_;
  RngState rng_;
  std::string label_;
  Buffer current_;
};

/// `mlp.dropout` for the activation `mlp.dropout.mask`; empty for one that is no mask.
std::string_view mask_name(std::string_view activation);

/// True where this call does not keep what the module computes.
bool recomputes(const LayerContext& context, matrix::RecomputeModule module);

/// Runs part `name` of a layer, which is `module` or belongs to it: `forward(context, saved)`.
/// Where the module is recomputed, what the part saved is dropped and the random state is kept.
template <typename Forward>
auto checkpoint(LayerContext& context, matrix::RecomputeModule module, SavedActivations& saved,
                const std::string& name, const Forward& forward) {
  if (!recomputes(context, module)) return forward(context, saved);
  saved.keep(name + ".rng_state",
             save_rng_state(context.stream, context.allocator, context.pool, context.rng,
                            context.label + " keep random state"));
  SavedActivations dropped;
  return forward(context, dropped);
}

/// How the ops of a recompute inside `context` run.
LayerContext recompute_context(const LayerContext& context);
/// Taps the masks that were kept after the first `from` activations as drawn again.
void tap_recomputed_masks(const LayerContext& context, const SavedActivations& saved,
                          std::size_t from);

/// In the backward of part `name`, before it reads activations: where the part was checkpointed,
/// runs `forward(context)` again, which keeps them.
template <typename Forward>
void recompute(LayerContext& context, const SavedActivations& saved, const std::string& name,
               const Forward& forward) {
  if (!saved.contains(name + ".rng_state")) return;
  const std::size_t kept = saved.all().size();
  LayerContext again = recompute_context(context);
  EarlierRngState state(context.stream, context.allocator, context.pool, context.rng,
                        saved.at(name + ".rng_state"), again.label);
  forward(again);
  state.put_back();
  tap_recomputed_masks(context, saved, kept);
}

}  // namespace cgconform::workloads
