#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/input_norm.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"
#include "workloads/layers/linear.hpp"

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
  bool can_delay_wgrads() const override { return true; }

 private:
  /// A part that recompute may drop; keeps in `saved` what its backward needs.
  /// Adds `residual` to its output where it is valid.
  Buffer feed_forward(LayerContext& context, const TensorView& normed, const TensorView& residual,
                      SavedActivations& saved);

  std::string name_;
  TransformerShape shape_;
  TensorParallel tensor_;
  InputNorm norm_;
  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
  std::vector<Parameter> parameters_;
};

}  // namespace cgconform::workloads
