#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "workloads/layers/attention_heads.hpp"
#include "workloads/layers/linear.hpp"

namespace cgconform::workloads {

/// How multi-latent attention makes its heads: queries, and keys with values, each go down to a
/// latent of half the hidden size, through a norm, and up to the heads. Tensor-parallel ranks all
/// have the latents, or each those of its rows, and each makes its share of the heads. Recompute of
/// `mla_up_proj` keeps the latents and computes the heads again in the backward.
class LatentHeads final : public AttentionHeads {
 public:
  LatentHeads(const TransformerShape& shape, const ModuleParameters& made_in);

  HeadBuffers forward(LayerContext& context, const TensorView& normed, HeadLayout wanted,
                      SavedActivations& saved) const override;
  void keep_or_discard(LayerContext& context, HeadBuffers heads,
                       SavedActivations& saved) const override;
  void recompute(LayerContext& context, SavedActivations& saved) const override;
  Buffer backward(LayerContext& context, HeadBuffers grad_heads, const TensorView& normed,
                  const SavedActivations& saved) const override;
  void append_to(std::vector<Parameter>& parameters) const override;

 private:
  /// One way down, through the norm, and up.
  struct Path {
    /// `heads` are the widths of what the heads are made of, in the whole model. Parameters are
    /// numbered from `first_number`.
    Path(const char* path_name, const TransformerShape& shape,
         const std::vector<std::int64_t>& heads, ModuleParameters made_in,
         std::uint64_t first_number);

    const char* name;
    DuplicatedLinear down;
    Parameter norm_weight;
    Parameter norm_bias;
    ColumnParallelLinear up;
  };
  static constexpr std::size_t query_path = 0;

  /// From the latents in `saved` to the heads.
  HeadBuffers up(LayerContext& context, const SavedActivations& saved) const;

  TransformerShape shape_;
  std::int32_t own_heads_;
  std::array<Path, 2> paths_;
};

}  // namespace cgconform::workloads
