#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/attention_heads.hpp"
#include "workloads/layers/input_norm.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"
#include "workloads/layers/linear.hpp"

namespace cgconform::workloads {

/// Scope `attn` of a layer: norm, causal multi-head attention, dropout and residual connection.
class SelfAttention final : public Layer {
 public:
  SelfAttention(std::string layer_name, const TransformerShape& shape,
                const ModuleParameters& made_in);

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return parameters_; }
  bool can_delay_wgrads() const override { return true; }

 private:
  /// Queries, keys and values, each [heads, length, head size].
  using Heads = std::array<TensorView, 3>;

  /// A part that recompute may drop; keeps in `saved` what its backward needs.
  Buffer core_attention(LayerContext& context, const Heads& heads, SavedActivations& saved);
  HeadBuffers core_attention_backward(LayerContext& context, const Heads& heads,
                                      const TensorView& grad_merged, const SavedActivations& saved);
  /// True where the part is one op each way, unless it drops something or, in the forward, packed
  /// sequences must be told apart.
  bool fits_one_op(DType dtype) const;

  /// What of all heads this rank computes.
  std::int64_t own_heads() const { return shape_.heads / tensor_.size(); }
  std::int64_t own_width() const { return own_heads() * head_size(); }
  std::int64_t head_size() const { return shape_.hidden / shape_.heads; }
  /// Scores of queries, [heads of all sequences, length, length].
  Shape per_score(const TensorView& query) const {
    return {query.shape[0], shape_.length, shape_.length};
  }

  std::string name_;
  TransformerShape shape_;
  TensorParallel tensor_;
  InputNorm norm_;
  std::unique_ptr<AttentionHeads> heads_;
  RowParallelLinear projection_;
  std::vector<Parameter> parameters_;
};

}  // namespace cgconform::workloads
