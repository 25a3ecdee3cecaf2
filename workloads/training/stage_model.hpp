#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "matrix/cell.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

class Fp8State;

/// What of a model a parameter belongs to.
enum class ModelPart : std::uint8_t { embedding, layer, head };

/// A parameter of a stage and where it belongs: its layer over the whole model, or -1.
struct StageParameter {
  std::string name;
  std::int32_t layer = -1;
  Parameter parameter;
  ModelPart part = ModelPart::layer;
};

/// Layers that a stage runs one after the other. A stage has several such chunks where virtual
/// stages are interleaved; the layers in between belong to other stages.
struct ModelChunk {
  std::int32_t first_layer = 0;  ///< over the whole model
  std::span<Layer* const> layers;
  bool first = false;  ///< begins with the embedding
  bool last = false;   ///< ends with the loss

  std::int32_t layer_count() const { return static_cast<std::int32_t>(layers.size()); }
};

/// What a model reads of a micro-batch.
struct ModelInput {
  TensorView tokens;  ///< int32 [tokens]
  TensorView images;  ///< patches of the images that sequences begin with; invalid where none do
};

/// The part of the model one pipeline stage holds.
class StageModel {
 public:
  virtual ~StageModel() = default;
  virtual std::span<const ModelChunk> chunks() const = 0;
  /// Of all chunks, in their order.
  virtual std::span<Layer* const> layers() const = 0;
  virtual std::span<const StageParameter> parameters() const = 0;
  /// All parameters in chunks of memory, in the same order.
  virtual std::span<const ParameterChunk> parameter_chunks() const = 0;

  /// What linear layers in 8 bits keep; null where there are none.
  virtual Fp8State* fp8() { return nullptr; }

  /// First chunk: hidden states of the input, [tokens, hidden].
  virtual Buffer embed(LayerContext& context, const ModelInput& input) = 0;
  virtual void embed_backward(LayerContext& context, const ModelInput& input,
                              const TensorView& grad_output) = 0;
  /// Last chunk: mean loss over the rows that count, a scalar.
  virtual Buffer loss(LayerContext& context, const TensorView& hidden, const TensorView& labels,
                      const TensorView& loss_mask, SavedActivations& saved) = 0;
  /// Gradient of the hidden states; multiplied by `loss_scale`, a scalar in device memory, where it
  /// is valid.
  virtual Buffer loss_backward(LayerContext& context, const TensorView& labels,
                               const TensorView& loss_mask, const TensorView& loss_scale,
                               SavedActivations& saved) = 0;
};

/// The scalars that an optimizer's kernels read, in device memory, so that a captured step follows
/// them.
struct OptimizerScalars {
  TensorView learning_rate;  ///< of the weights' type
  TensorView step;           ///< int64; invalid where the optimizer has no bias correction
  TensorView clip_factor{};  ///< fp64, of the gradients; invalid where they are not clipped
};

/// Updates a stage's weights from its accumulated gradients.
class StageOptimizer {
 public:
  virtual ~StageOptimizer() = default;
  void step(Stream& stream) { step_with(stream, scalars()); }
  /// The step with scalars from elsewhere; the optimizer's own step counter moves on all the same.
  virtual void step_with(Stream& stream, const OptimizerScalars& scalars) = 0;
  virtual OptimizerScalars scalars() const = 0;
  /// Before training step `step`: the host writes the schedule's learning rate into one of two
  /// slots in turn, and a copy on the device takes it from there.
  virtual void stage_learning_rate(Stream& stream, std::int32_t step) = 0;
  virtual void take_learning_rate(Stream& stream, std::int32_t step) = 0;
  /// State tensors by name: the scalars, and those that lie in `state_chunks`, in their order.
  virtual const std::vector<std::pair<std::string, TensorView>>& state() const = 0;
  /// Memory that holds the state tensors of many parameters.
  virtual std::vector<TensorView> state_chunks() const = 0;
  /// What the loss's gradient has to be multiplied by, a scalar in device memory; invalid where
  /// the loss is not scaled.
  virtual TensorView loss_scale() const = 0;
};

/// The groups whose ranks run one layer together; null where this rank runs it alone.
struct LayerGroups {
  Communicator* tensor = nullptr;
  Communicator* expert = nullptr;
  Communicator* amax = nullptr;  ///< over which magnitudes of 8-bit layers are reduced
};

/// The cell's model on pipeline stage `stage`; parameters are a function of `seed` and of their
/// place in the whole model, so that every split of the model starts from the same weights. Layers
/// are dealt out to virtual stages in equal shares, or as equal as they can be.
std::unique_ptr<StageModel> make_stage_model(const matrix::Cell& cell, std::uint64_t seed,
                                             int stage, CachingAllocator& allocator, Stream& stream,
                                             const LayerGroups& groups = {});
/// The cell's optimizer. 16-bit weights are trained through fp32 main weights; fp16 scales its
/// loss. `gang` joins all ranks, which agree on whether a step overflowed and on the norm that
/// gradients are clipped by; null for one rank.
/// `stepped` is what it steps: the stage's chunks of parameters, or this replica's shares of them.
std::unique_ptr<StageOptimizer> make_stage_optimizer(const matrix::Cell& cell, StageModel& model,
                                                     CachingAllocator& allocator, Stream& stream,
                                                     Communicator* gang,
                                                     std::vector<ParameterChunk> stepped);
/// The one that steps all parameters of the stage.
std::unique_ptr<StageOptimizer> make_stage_optimizer(const matrix::Cell& cell, StageModel& model,
                                                     CachingAllocator& allocator, Stream& stream,
                                                     Communicator* gang);

}  // namespace cgconform::workloads
