#pragma once

#include <span>
#include <string>
#include <string_view>

#include "workloads/layers/moe_shape.hpp"

namespace cgconform::workloads {

/// The end of a MoE layer: brings rows back to their tokens, weighted by the router, adds the
/// shared expert, and does dropout and the residual connection. Takes the bundle `worked`.
class MoePostprocess final : public Layer {
 public:
  MoePostprocess(std::string layer_name, const TransformerShape& shape, const MoeShape& moe,
                 DType dtype, RngStream dropout);

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return {}; }
  bool reads_input_again() const override { return true; }

 private:
  std::string name_;
  TransformerShape shape_;
  MoeShape moe_;
  MoeLayouts layouts_;
  RngStream dropout_;  ///< what the dropout draws from
};

}  // namespace cgconform::workloads
