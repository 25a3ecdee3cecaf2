#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/input_norm.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"

namespace cgconform::workloads {

/// Scope `mlp` of a dense layer: norm, GELU MLP, dropout and residual connection.
class Mlp final : public Layer {
 public:
  Mlp(std::string layer_name, const TransformerShape& shape, const ModuleParameters& made_in);

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return parameters_; }

 private:
  /// A part that recompute may drop; keeps in `saved` what its backward needs.
  Buffer feed_forward(LayerContext& context, const TensorView& normed, SavedActivations& saved);

  const Parameter* fc1_bias() const { return shape_.bias ? &fc1_bias_ : nullptr; }
  const Parameter* fc2_bias() const { return shape_.bias ? &fc2_bias_ : nullptr; }

  std::string name_;
  TransformerShape shape_;
  InputNorm norm_;
  Parameter fc1_weight_;
  Parameter fc2_weight_;
  Parameter fc1_bias_;
  Parameter fc2_bias_;
  std::vector<Parameter> parameters_;
};

}  // namespace cgconform::workloads
