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
/// sequence, and every sequence starts from zero. The forward keeps the state that each chunk
/// starts from; the backward computes those inside of a chunk again.
///
/// Each tensor-parallel rank has a share of the heads, and with them of gates, values and steps.
/// The weights between values and states (Megatron's B and C) serve all heads: every rank has them
/// whole, and a part of their gradients.
class MambaMixer final : public Layer {
 public:
  MambaMixer(std::string layer_name, const TransformerShape& shape,
             const ModuleParameters& made_in);

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return parameters_; }
  bool can_delay_wgrads() const override { return true; }

 private:
  /// A part of the input projection that goes through a convolution.
  struct Convolved {
    Convolved(const char* part, std::int64_t outputs, OutputShare share, std::uint64_t number,
              const TransformerShape& shape, const MambaSizes& sizes,
              const ModuleParameters& made_in);

    void append_to(std::vector<Parameter>& parameters) const;

    std::string name;  ///< of the convolution
    SharedInputLinear projection;
    Parameter weight;
    Parameter bias;
  };

  /// Calls visit(chunk, its params) for every chunk of so many sequences.
  template <typename Visit>
  void for_each_chunk(std::int32_t sequences, const Visit& visit) const {
    for (std::int32_t chunk = 0; chunk < chunks(); ++chunk) {
      visit(chunk, scan_params(sequences, chunk));
    }
  }
  std::int32_t chunks() const { return (shape_.length + sizes_.chunk - 1) / sizes_.chunk; }
  ScanParams scan_params(std::int32_t sequences, std::int32_t chunk) const;
  /// States of the rank's heads, one for each of `count` sequences.
  Shape state_shape(std::int64_t count) const;
  /// The state at the start of chunk `chunk` of all sequences, in a tensor that holds one a chunk
  /// and the last one.
  TensorView state_at(const TensorView& states, std::int32_t chunk) const;
  ScanInputs scan_inputs(const TensorView& cu_seqlens, const TensorView& values,
                         const TensorView& state_weights, const TensorView& step) const;

  /// Keeps where packed sequences begin for the backward, before which those of another micro-batch
  /// may have taken their place.
  static void keep_borders(LayerContext& context, SavedActivations& saved);
  /// Invalid where nothing is packed.
  static TensorView kept_borders(const SavedActivations& saved);
  /// Keeps its input for the backward.
  Buffer convolve(LayerContext& context, const Convolved& part, Buffer input,
                  SavedActivations& saved) const;
  /// Gradient of the convolution's input.
  Buffer convolve_backward(LayerContext& context, const Convolved& part,
                           const TensorView& grad_convolved, const SavedActivations& saved) const;
  Buffer scan(LayerContext& context, const ScanInputs& inputs, SavedActivations& saved) const;
  struct ScanInputGrads {
    Buffer values;
    Buffer state_weights;
    Buffer step;
  };
  ScanInputGrads scan_backward(LayerContext& context, const TensorView& grad_scanned,
                               const SavedActivations& saved) const;

  std::string name_;
  TransformerShape shape_;
  TensorParallel tensor_;
  MambaSizes sizes_;
  std::int32_t own_heads_;
  InputNorm norm_;
  SharedInputLinear gate_;
  Convolved values_;
  Convolved state_weights_;
  SharedInputLinear step_;
  Parameter step_bias_;
  Parameter decay_log_;
  Parameter skip_;
  RowParallelLinear output_;
  std::vector<Parameter> parameters_;
};

}  // namespace cgconform::workloads
