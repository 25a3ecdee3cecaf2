#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/expert_exchange.hpp"
#include "workloads/layers/grouped_linear.hpp"
#include "workloads/layers/moe_shape.hpp"

namespace cgconform::workloads {

/// The experts of a MoE layer, GELU MLPs without biases, with the exchange of rows before and after
/// them. Takes the bundle `placed` and gives `worked`. Without a capacity the host reads how many
/// rows each expert gets, so that nothing of this can be captured.
class MoeExperts final : public Layer {
 public:
  MoeExperts(std::string layer_name, const TransformerShape& shape, const MoeShape& moe,
             const ModuleParameters& made_in, DType dtype);

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return parameters_; }
  bool can_delay_wgrads() const override { return true; }
  std::int64_t output_bytes() const override { return layouts_.worked.bytes(); }
  std::int64_t grad_output_bytes() const override { return layouts_.placed_grad.bytes(); }
  bool reads_input_again() const override { return true; }

 private:
  /// A part that recompute may drop: the experts' work on the rows of `plan`.
  void work(LayerContext& context, const ExchangePlan& plan, const TensorView& rows,
            const TensorView& results, SavedActivations& saved);
  /// Takes the gradients of the results and writes those of the rows.
  void work_backward(LayerContext& context, const ExchangePlan& plan,
                     const TensorView& grad_results, const TensorView& grad_rows,
                     SavedActivations& saved);
  static Buffer activate(LayerContext& context, const TensorView& expanded);

  std::string name_;
  MoeShape moe_;
  TensorParallel tensor_;
  MoeLayouts layouts_;
  std::int64_t own_ffn_;  ///< of each expert, on this rank
  GroupedLinear fc1_;     ///< [experts, ffn, hidden], of which the rank has rows
  GroupedLinear fc2_;     ///< [experts, hidden, ffn], of which the rank has columns
  std::vector<Parameter> parameters_;
  ExpertExchange exchange_;
};

}  // namespace cgconform::workloads
