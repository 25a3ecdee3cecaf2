#pragma once

#include <string>
#include <vector>

#include "workloads/layers/expert_exchange.hpp"
#include "workloads/layers/fp8_linear.hpp"

namespace cgconform::workloads {

/// A linear layer of each expert, without biases: every row is multiplied with the weight of the
/// expert that a plan's segments give it to. In 8 bits each expert has scales of its own.
class GroupedLinear {
 public:
  GroupedLinear() = default;
  /// `weights` are [experts, out, in]; `fp8` is null where products are not in 8 bits.
  GroupedLinear(std::string name, const Parameter& weights, Fp8State* fp8);

  /// y = x weight^T, where a segment has rows.
  void forward(LayerContext& context, const ExchangePlan& plan, const TensorView& x,
               const TensorView& y) const;
  /// Writes the gradient of x, and adds those of the weights or leaves them for later.
  void backward(LayerContext& context, const ExchangePlan& plan, const TensorView& grad_y,
                const TensorView& x, const TensorView& grad_x) const;

 private:
  std::string name_;
  Parameter weights_;
  std::vector<Fp8Linear> in_8_bits_;  ///< of each expert
};

}  // namespace cgconform::workloads
