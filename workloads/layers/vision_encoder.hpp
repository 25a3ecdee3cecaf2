#pragma once

#include <memory>
#include <vector>

#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"
#include "workloads/layers/mlp.hpp"

namespace cgconform::workloads {

/// Makes hidden states of an image's patches: a projection of each patch and an MLP. Keeps nothing
/// between forward and backward; the backward runs the forward again.
class VisionEncoder {
 public:
  /// `patch_size` numbers make a patch.
  VisionEncoder(const TransformerShape& shape, std::int64_t patch_size,
                const ModuleParameters& made_in);

  /// `patches` is [patches, patch size] of the arithmetic type; gives [patches, hidden].
  Buffer forward(LayerContext& context, const TensorView& patches, SavedActivations& saved);
  void backward(LayerContext& context, const TensorView& patches, const TensorView& grad_output);
  /// In the order in which they were added.
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  Parameter patch_weight_;
  Parameter patch_bias_;
  std::unique_ptr<Mlp> mlp_;
  std::vector<Parameter> parameters_;
};

}  // namespace cgconform::workloads
