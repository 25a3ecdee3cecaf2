#pragma once

#include <string>

#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"

namespace cgconform::workloads {

/// The layer norm at the start of a module, which recompute of `layernorm` computes again instead
/// of keeping its output.
class InputNorm {
 public:
  /// Adds the weight and the bias, of `hidden` elements, under `number` after the module's first
  /// and the number after it.
  InputNorm(std::string name, std::int64_t hidden, const ModuleParameters& made_in,
            std::uint64_t number);

  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) const;
  /// After its reader: keeps the norm's output, or gives it back where it will be computed again.
  void keep_or_discard(LayerContext& context, const TensorView& input, Buffer normed,
                       SavedActivations& saved) const;
  /// In the backward, before `output` is read.
  void recompute_output(LayerContext& context, SavedActivations& saved) const;
  TensorView output(const SavedActivations& saved) const { return saved.at(name_ + ".output"); }
  /// Gradient of the norm's input, which is also that of the module: `past_module` flows past it.
  Buffer backward(LayerContext& context, const TensorView& grad_normed,
                  const TensorView& past_module, const SavedActivations& saved) const;

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }

 private:
  std::string name_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace cgconform::workloads
