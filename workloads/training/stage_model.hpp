#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "matrix/cell.hpp"
#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

/// A parameter of a stage and where it belongs: its layer over the whole model, or -1.
struct StageParameter {
  std::string name;
  std::int32_t layer = -1;
  Parameter parameter;
};

/// The part of the model one pipeline stage holds.
class StageModel {
 public:
  virtual ~StageModel() = default;
  virtual bool first() const = 0;
  virtual bool last() const = 0;
  virtual std::int32_t first_layer() const = 0;
  virtual std::span<Layer* const> layers() const = 0;
  virtual std::span<const StageParameter> parameters() const = 0;

  /// First stage: hidden states of the tokens, [tokens, hidden].
  virtual Buffer embed(LayerContext& context, const TensorView& tokens) = 0;
  virtual void embed_backward(LayerContext& context, const TensorView& tokens,
                              const TensorView& grad_output) = 0;
  /// Last stage: mean loss over the rows that count, a scalar.
  virtual Buffer loss(LayerContext& context, const TensorView& hidden, const TensorView& labels,
                      const TensorView& loss_mask, SavedActivations& saved) = 0;
  /// Gradient of the hidden states.
  virtual Buffer loss_backward(LayerContext& context, const TensorView& labels,
                               const TensorView& loss_mask, SavedActivations& saved) = 0;
};

/// Updates a stage's weights from its accumulated gradients.
class StageOptimizer {
 public:
  virtual ~StageOptimizer() = default;
  virtual void step(Stream& stream) = 0;
  /// State tensors by name.
  virtual std::vector<std::pair<std::string, TensorView>> state() const = 0;
};

/// The cell's model on pipeline stage `stage`; parameters are a function of `seed` and of their
/// place in the whole model, so that every split of the model starts from the same weights.
/// Throws Error where the layers do not divide by the stages.
std::unique_ptr<StageModel> make_stage_model(const matrix::Cell& cell, std::uint64_t seed,
                                             int stage, CachingAllocator& allocator,
                                             Stream& stream);
std::unique_ptr<StageOptimizer> make_stage_optimizer(const matrix::Cell& cell, StageModel& model,
                                                     CachingAllocator& allocator, Stream& stream);

}  // namespace cgconform::workloads
