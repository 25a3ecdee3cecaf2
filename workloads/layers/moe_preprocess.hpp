#pragma once

#include <span>
#include <string>
#include <string_view>

#include "workloads/layers/moe_shape.hpp"

namespace cgconform::workloads {

/// Scope `moe_preprocess` of a MoE layer: gives tokens their rows, drops those beyond the capacity,
/// and lays the rows out by expert. Takes the bundle `routed` and gives `placed`.
class MoePreprocess final : public Layer {
 public:
  MoePreprocess(std::string layer_name, const TransformerShape& shape, const MoeShape& moe,
                DType dtype);

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return {}; }
  std::int64_t output_bytes() const override { return layouts_.placed.bytes(); }
  std::int64_t grad_output_bytes() const override { return layouts_.placed_grad.bytes(); }

 private:
  void place(LayerContext& context, const TensorView& routed, const TensorView& placed);

  std::string name_;
  TransformerShape shape_;
  MoeShape moe_;
  MoeLayouts layouts_;
};

}  // namespace cgconform::workloads
