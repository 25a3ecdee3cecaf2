#pragma once

#include <span>
#include <string>
#include <vector>

#include "workloads/layers/fp8_state.hpp"
#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

/// Rows that a linear layer takes, and where those that it gives are written.
struct LinearRows {
  TensorView x;
  TensorView y;
};

/// The same of its backward.
struct LinearGradRows {
  TensorView grad_y;
  TensorView x;
  TensorView grad_x;
};

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

  /// The same of rows that lie in several places and have one scale; of none, too.
  void forward(LayerContext& context, std::span<const LinearRows> parts,
               const std::string& name) const;
  void backward(LayerContext& context, std::span<const LinearGradRows> parts,
                const std::string& name) const;

 private:
  struct Quantised {
    Buffer rows;
    Buffer columns;
  };

  std::vector<Quantised> quantise(LayerContext& context, const std::vector<TensorView>& parts,
                                  Fp8Operand operand, bool records, const std::string& name) const;
  /// The scale of all parts together.
  void scale_now(LayerContext& context, const std::vector<TensorView>& parts,
                 const Fp8Scaling& scaling, const std::string& label) const;
  void refresh_weight(LayerContext& context, const std::string& name) const;
  /// Adds the weight's gradient by what was quantised, or leaves it for later.
  void add_or_leave_wgrad(LayerContext& context, Quantised& gradient, Quantised& input,
                          const std::string& name) const;

  Fp8State* state_;
  std::int32_t number_;
  Parameter weight_;
  QuantisedView cached_;
};

}  // namespace cgconform::workloads
