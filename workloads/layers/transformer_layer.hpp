#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/layer.hpp"
#include "workloads/layers/parameter_store.hpp"

namespace cgconform::workloads {

/// Sizes and rates of a transformer layer on one micro-batch.
struct TransformerShape {
  std::int32_t sequences = 1;
  std::int32_t length = 1;
  std::int32_t hidden = 1;
  std::int32_t heads = 1;
  std::int32_t ffn_hidden = 1;
  float attention_dropout = 0.0F;
  float hidden_dropout = 0.0F;
  bool bias = true;

  std::int64_t tokens() const { return std::int64_t{sequences} * length; }
};

/// A pre-norm transformer layer: causal multi-head attention and a GELU MLP, each with dropout and
/// a residual connection. The two halves can be called apart, as graph scopes `attn` and `mlp`
/// need.
class TransformerLayer final : public Layer {
 public:
  /// Parameters are numbered from `first_number`; a layer uses `parameter_count` numbers.
  static constexpr std::uint64_t parameter_count = 12;
  TransformerLayer(std::string name, const TransformerShape& shape, ParameterStore& store,
                   std::uint64_t first_number);
  ~TransformerLayer() override;
  TransformerLayer(const TransformerLayer&) = delete;
  TransformerLayer& operator=(const TransformerLayer&) = delete;

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return parameters_; }
  std::span<const LayerModule> modules() const override { return modules_; }

  Buffer attention_forward(LayerContext& context, const TensorView& input, SavedActivations& saved);
  Buffer attention_backward(LayerContext& context, const TensorView& grad_output,
                            SavedActivations& saved);
  Buffer mlp_forward(LayerContext& context, const TensorView& input, SavedActivations& saved);
  Buffer mlp_backward(LayerContext& context, const TensorView& grad_output,
                      SavedActivations& saved);

 private:
  /// One half of the layer as a layer of its own.
  class Half;

  /// Position of a parameter in `parameters_`; biases are absent from it without `shape_.bias`.
  enum Index : std::size_t {
    input_norm_weight,
    input_norm_bias,
    qkv_weight,
    projection_weight,
    mlp_norm_weight,
    mlp_norm_bias,
    fc1_weight,
    fc2_weight,
    qkv_bias,
    projection_bias,
    fc1_bias,
    fc2_bias,
  };
  const Parameter& parameter(Index index) const { return parameters_[index]; }
  std::int64_t head_count() const { return std::int64_t{shape_.sequences} * shape_.heads; }
  std::int64_t head_size() const { return shape_.hidden / shape_.heads; }

  std::string name_;
  TransformerShape shape_;
  std::vector<Parameter> parameters_;
  std::vector<std::unique_ptr<Half>> halves_;
  std::vector<LayerModule> modules_;
};

}  // namespace cgconform::workloads
