#pragma once

#include "workloads/layers/attention_heads.hpp"
#include "workloads/layers/linear.hpp"

namespace cgconform::workloads {

/// One projection to queries, keys and values side by side. Where there are fewer groups than
/// heads, the heads of a group share a key and a value.
class QkvHeads final : public AttentionHeads {
 public:
  QkvHeads(const TransformerShape& shape, const ModuleParameters& made_in);

  HeadBuffers forward(LayerContext& context, const TensorView& normed, HeadLayout wanted,
                      SavedActivations& saved) const override;
  Buffer backward(LayerContext& context, HeadBuffers grad_heads, const TensorView& normed,
                  const SavedActivations& saved) const override;
  void append_to(std::vector<Parameter>& parameters) const override;

 private:
  /// Rows of gradients side by side, from gradients that lie apart.
  Buffer merged(LayerContext& context, const HeadViews& grad_heads) const;

  std::int32_t own_heads() const { return shape_.heads / tensor_.size(); }
  std::int32_t own_groups() const { return shape_.key_value_heads() / tensor_.size(); }
  std::int32_t head_size() const { return shape_.hidden / shape_.heads; }
  std::int32_t repeat() const { return shape_.heads / shape_.key_value_heads(); }

  TransformerShape shape_;
  TensorParallel tensor_;
  ColumnParallelLinear qkv_;
};

}  // namespace cgconform::workloads
