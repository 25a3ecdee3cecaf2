#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/layers/fp8_linear.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"

namespace cgconform::workloads {

/// The expert of a MoE layer that sees every token: a GELU MLP without biases, which
/// tensor-parallel ranks share as they do any MLP.
class SharedExpert {
 public:
  /// Adds two weights under `made_in.first_number` and the number after it.
  SharedExpert(std::int64_t hidden, std::int64_t ffn_hidden, const ModuleParameters& made_in);

  /// Writes the output for `normed` [tokens, hidden]. A part that recompute may drop.
  void forward(LayerContext& context, const TensorView& output, const TensorView& normed,
               SavedActivations& saved) const;
  /// Gradient of `normed`.
  Buffer backward(LayerContext& context, const TensorView& grad_output, const TensorView& normed,
                  SavedActivations& saved) const;
  std::vector<Parameter> parameters() const { return {fc1_weight_, fc2_weight_}; }

 private:
  void work(LayerContext& context, const TensorView& output, const TensorView& normed,
            SavedActivations& saved) const;

  TensorParallel tensor_;
  Parameter fc1_weight_;
  Parameter fc2_weight_;
  std::optional<Fp8Linear> fc1_in_8_bits_;  ///< where products are in 8 bits
  std::optional<Fp8Linear> fc2_in_8_bits_;
};

}  // namespace cgconform::workloads
