#pragma once

#include <string>

#include "workloads/layers/fp8_state.hpp"
#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

/// A linear layer's products in 8 bits: input, weight and gradient are quantised, results and the
/// gradients of parameters are not.
class Fp8Linear {
 public:
  Fp8Linear(Fp8State& state, const Parameter& weight);

  /// x weight^T.
  Buffer forward(LayerContext& context, const TensorView& x, const std::string& name) const;
  /// Adds the weight's gradient and returns that of x. The weight is the forward's.
  Buffer backward(LayerContext& context, const TensorView& grad_output, const TensorView& x,
                  const std::string& name) const;

 private:
  struct Quantised {
    Buffer rows;
    Buffer columns;
  };

  Quantised quantise(LayerContext& context, const TensorView& x, Fp8Operand operand, bool records,
                     const std::string& name) const;
  void refresh_weight(LayerContext& context, const std::string& name) const;

  Fp8State* state_;
  std::int32_t number_;
  Parameter weight_;
  QuantisedView cached_;
};

}  // namespace cgconform::workloads
