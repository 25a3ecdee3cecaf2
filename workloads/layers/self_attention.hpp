#pragma once

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
  /// A part that recompute may drop; keeps in `saved` what its backward needs.
  Buffer core_attention(LayerContext& context, const HeadViews& heads, SavedActivations& saved);
  HeadBuffers core_attention_backward(LayerContext& context, const HeadViews& heads,
                                      const TensorView& grad_merged, const SavedActivations& saved);
  /// True where the part can be one op each way, as far as the sizes go.
  bool fits_one_op(DType dtype) const;
  /// True where the forward is: it drops nothing and each query looks at all keys before it.
  bool is_one_op(const LayerContext& context, DType dtype) const;

  /// What of all heads this rank computes.
  std::int64_t own_heads() const { return shape_.heads / tensor_.size(); }
  std::int64_t own_width() const { return own_heads() * head_size(); }
  std::int64_t head_size() const { return shape_.hidden / shape_.heads; }
  /// Rows of the batch, of which a partial micro-batch has fewer.
  std::int64_t sequences_of(const HeadViews& heads) const;
  /// Scores of queries, [heads of all sequences, length, length].
  Shape per_score(const HeadViews& heads) const {
    return {sequences_of(heads) * own_heads(), shape_.length, shape_.length};
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
