#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/input_norm.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"
#include "workloads/layers/linear.hpp"
#include "workloads/ops/mamba.hpp"

namespace cgconform::workloads {

/// Sizes inside of a Mamba layer that follow from those of the model.
struct MambaSizes {
  std::int32_t heads = 1;
  std::int32_t head_size = 1;
  std::int32_t states = 1;  ///< of each channel
  std::int32_t taps = 1;    ///< of the convolution
  std::int32_t chunk = 1;   ///< positions that are scanned at a time

  explicit MambaSizes(const TransformerShape& shape);
  std::int64_t inner() const { return std::int64_t{heads} * head_size; }
};

/// Scope `mamba` of a layer: norm, input projection, causal convolution, selective scan, gate,
/// output projection, dropout and residual connection. The state is handed from chunk to chunk of a
/// sequence, and the first chunk of every sequence starts from zero. The forward keeps the state
/// that each chunk starts from; the backward computes those inside of a chunk again.
class MambaMixer final : public Layer {
 public:
  MambaMixer(std::string layer_name, const TransformerShape& shape,
             const ModuleParameters& made_in);

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return parameters_; }

 private:
  /// Calls visit(chunk, its params) for every chunk of a sequence.
  template <typename Visit>
  void for_each_chunk(const Visit& visit) const {
    for (std::int32_t chunk = 0; chunk < chunks(); ++chunk) visit(chunk, scan_params(chunk));
  }
  std::int32_t chunks() const { return (shape_.length + sizes_.chunk - 1) / sizes_.chunk; }
  ScanParams scan_params(std::int32_t chunk) const;
  /// The state at the start of chunk `chunk` of all sequences, in a tensor that holds one a chunk
  /// and the last one.
  TensorView state_at(const TensorView& states, std::int32_t chunk) const;
  Shape state_shape(std::int64_t count) const;
  ScanInputs scan_inputs(const TensorView& convolved, const TensorView& step) const;

  Buffer scan(LayerContext& context, const ScanInputs& inputs, SavedActivations& saved) const;
  /// Gradients of what is scanned and of the step sizes.
  std::pair<Buffer, Buffer> scan_backward(LayerContext& context, const TensorView& grad_scanned,
                                          const SavedActivations& saved) const;

  std::string name_;
  TransformerShape shape_;
  MambaSizes sizes_;
  InputNorm norm_;
  DuplicatedLinear gate_;
  DuplicatedLinear values_;
  DuplicatedLinear step_;
  Parameter convolution_weight_;
  Parameter convolution_bias_;
  Parameter step_bias_;
  Parameter decay_log_;
  Parameter skip_;
  DuplicatedLinear output_;
  std::vector<Parameter> parameters_;
};

}  // namespace cgconform::workloads
