#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/input_norm.hpp"
#include "workloads/layers/moe_shape.hpp"
#include "workloads/layers/shared_expert.hpp"

namespace cgconform::workloads {

/// Scope `moe_router` of a MoE layer: norm, top-k router with its load-balancing loss, and the
/// shared expert. Takes hidden states and gives the bundle `routed`.
class MoeRouter final : public Layer {
 public:
  MoeRouter(std::string layer_name, const TransformerShape& shape, const MoeShape& moe,
            const ModuleParameters& made_in);

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return parameters_; }
  bool can_delay_wgrads() const override { return shared_.has_value(); }
  std::int64_t output_bytes() const override { return layouts_.routed.bytes(); }
  std::int64_t grad_output_bytes() const override { return layouts_.routed_grad.bytes(); }

 private:
  /// A part that recompute may drop: routes the tokens and lets the shared expert work on them.
  void route(LayerContext& context, const TensorView& normed, const TensorView& bundle,
             SavedActivations& saved);
  /// `normed`, or that with noise, which is what the router sees.
  TensorView gate_input(LayerContext& context, const TensorView& normed, SavedActivations& saved);
  void tap_routing(LayerContext& context, const TensorView& bundle, const TensorView& scores);
  /// The bias in the type of the logits; `converted` holds it where that is another one.
  TensorView bias(LayerContext& context, Buffer& converted);
  /// Of the micro-batch; where tensor-parallel ranks share rows each routes its own.
  std::int64_t all_tokens() const {
    return shape_.tokens() * (tensor_.shares_rows() ? tensor_.size() : 1);
  }
  /// Weight of the load-balancing loss a token of an expert.
  float balance_scale() const;
  Buffer grad_normed(LayerContext& context, const TensorView& grad_bundle, SavedActivations& saved);

  std::string name_;
  TransformerShape shape_;
  MoeShape moe_;
  TensorParallel tensor_;
  InputNorm norm_;
  MoeLayouts layouts_;
  Parameter weight_;
  Parameter bias_;
  std::optional<SharedExpert> shared_;
  std::vector<Parameter> parameters_;
};

}  // namespace cgconform::workloads
