#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/layers/gradient_clipping.hpp"
#include "workloads/layers/loss_scaler.hpp"
#include "workloads/layers/model_type.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/optimizer.hpp"
#include "workloads/training/stage_model.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

namespace {

constexpr double initial_learning_rate = 0.01;

/// Rises over a warm-up and falls afterwards: never the same in two steps that follow each other.
double scheduled_learning_rate(std::int32_t step) {
  constexpr double warmup = 8.0;
  const double number = step + 1.0;
  return initial_learning_rate * (number < warmup ? number / warmup : warmup / number);
}

/// The learning rate on the device, and the two slots it comes from.
class LearningRate {
 public:
  LearningRate(Stream& stream, const TensorView& value, const std::array<TensorView, 2>& slots)
      : value_(value), slots_(slots) {
    upload(stream, value_, initial_learning_rate);
  }

  const TensorView& value() const { return value_; }
  void stage(Stream& stream, std::int32_t step) {
    upload(stream, slot(step), scheduled_learning_rate(step));
  }
  void take(Stream& stream, std::int32_t step) {
    stream.copy(value_, slot(step), "take learning_rate");
  }

 private:
  const TensorView& slot(std::int32_t step) const {
    return slots_[static_cast<std::size_t>(step) % slots_.size()];
  }
  static void upload(Stream& stream, const TensorView& target, double value) {
    if (target.dtype == DType::fp64) {
      stream.upload(target, &value, false, "learning_rate");
    } else {
      const auto narrow = static_cast<float>(value);
      stream.upload(target, &narrow, false, "learning_rate");
    }
  }

  TensorView value_;
  std::array<TensorView, 2> slots_;
};

/// What the optimizer keeps for a chunk of parameters; `second` is invalid for SGD. `main_weights`
/// are the model's own weights, but for 16-bit ones.
struct ChunkState {
  ParameterChunk parameters;
  TensorView main_weights;
  TensorView first;
  TensorView second;
};

/// Steps a stage chunk by chunk, as Megatron does: 16-bit weights are copies of fp32 main weights.
class ChunkOptimizer : public StageOptimizer {
 public:
  ChunkOptimizer(const matrix::Cell& cell, const StageModel& model, CachingAllocator& allocator,
                 Stream& stream, Communicator* gang, std::vector<ParameterChunk> stepped)
      : allocator_(allocator),
        stream_(stream),
        arithmetic_(arithmetic_type(model_type(cell))),
        stepped_(std::move(stepped)) {
    for (const ParameterChunk& chunk : model.parameter_chunks()) {
      main_grads_.push_back(chunk.main_grads);
    }
    if (model_type(cell) == DType::fp16) {
      scaler_.emplace(allocator, stream, cell.config.loss_scale, gang);
      for (const auto& entry : scaler_->state()) state_.push_back(entry);
    }
    if (cell.shape.clip_grad > 0.0F) {
      clipping_.emplace(cell, model, allocator, stream, gang);
      for (const auto& entry : clipping_->state()) state_.push_back(entry);
    }
    learning_rate_.emplace(
        stream, make(Shape{}, "learning_rate"),
        std::array{make(Shape{}, "learning_rate slot"), make(Shape{}, "learning_rate slot")});
  }

  void step_with(Stream& stream, const OptimizerScalars& scalars) final {
    if (scaler_) scaler_->unscale(stream, main_grads_);
    const TensorView overflowed = scaler_ ? scaler_->overflowed() : TensorView{};
    if (clipping_) {
      clipping_->measure(stream, overflowed);
      clipping_->apply(stream, scalars.clip_factor);
    }
    step_chunks(stream, scalars, overflowed);
    for (const ChunkState& chunk : chunk_states_) {
      const TensorView& weights = chunk.parameters.weights;
      if (weights.data == chunk.main_weights.data) continue;
      cast(stream, weights, chunk.main_weights, "copy of main weights");
    }
    if (scaler_) scaler_->update(stream);
  }

  OptimizerScalars scalars() const final {
    return {.learning_rate = learning_rate_->value(),
            .step = step_counter(),
            .clip_factor = clipping_ ? clipping_->factor() : TensorView{}};
  }
  void stage_learning_rate(Stream& stream, std::int32_t step) final {
    learning_rate_->stage(stream, step);
  }
  void take_learning_rate(Stream& stream, std::int32_t step) final {
    learning_rate_->take(stream, step);
  }
  const std::vector<std::pair<std::string, TensorView>>& state() const final { return state_; }
  std::vector<TensorView> state_chunks() const final { return state_chunks_; }
  TensorView loss_scale() const final { return scaler_ ? scaler_->loss_scale() : TensorView{}; }

 protected:
  virtual void step_chunks(Stream& stream, const OptimizerScalars& scalars,
                           const TensorView& overflowed) = 0;
  /// Counts the steps for the bias correction; invalid where there is none.
  virtual TensorView step_counter() const = 0;

  /// Names of the state tensors of a parameter; an empty one is not kept.
  void make_states(StageModel& model, const char* first, const char* second) {
    for (const ParameterChunk& parameters : stepped_) {
      ChunkState chunk{parameters, parameters.weights, {}, {}};
      const Shape& shape = parameters.weights.shape;
      if (parameters.weights.dtype != arithmetic_) {
        chunk.main_weights = make_state_chunk(shape, "main weights");
        cast(stream_, chunk.main_weights, parameters.weights, "main weights");
        name_parts(model, parameters, chunk.main_weights, "main_weight");
      }
      chunk.first = make_state_chunk(shape, first);
      name_parts(model, parameters, chunk.first, first);
      if (second != nullptr) {
        chunk.second = make_state_chunk(shape, second);
        name_parts(model, parameters, chunk.second, second);
      }
      chunk_states_.push_back(chunk);
    }
  }

  TensorView add_scalar_state(DType dtype, const char* name) {
    const TensorView& view =
        buffers_.emplace_back(allocator_, stream_, default_pool, dtype, Shape{}, name).view();
    stream_.fill(view, 0, name);
    state_.emplace_back(name, view);
    return view;
  }

  const std::vector<ChunkState>& chunk_states() const { return chunk_states_; }

 private:
  TensorView make(const Shape& shape, const char* name) {
    return buffers_.emplace_back(allocator_, stream_, default_pool, arithmetic_, shape, name)
        .view();
  }

  TensorView make_state_chunk(const Shape& shape, const char* name) {
    const TensorView chunk = make(shape, name);
    stream_.fill(chunk, 0, name);
    state_chunks_.push_back(chunk);
    return chunk;
  }

  /// Names the parts of a state chunk after the parameters of its chunk of parameters. A parameter
  /// that a replica steps in part is a vector.
  void name_parts(StageModel& model, const ParameterChunk& parameters, const TensorView& chunk,
                  const char* prefix) {
    const auto* begin = static_cast<const std::byte*>(parameters.weights.data);
    for (const StageParameter& entry : model.parameters()) {
      const TensorView& weight = entry.parameter.weight;
      const auto* data = static_cast<const std::byte*>(weight.data);
      const std::byte* from = std::max(data, begin);
      const std::byte* to = std::min(data + weight.bytes(), begin + parameters.weights.bytes());
      if (from >= to) continue;
      const std::int64_t first = (from - begin) / dtype_bytes(weight.dtype);
      const std::int64_t count = (to - from) / dtype_bytes(weight.dtype);
      const Shape shape = count == weight.elements() ? weight.shape : Shape{count};
      state_.emplace_back(std::string(prefix) + ":" + entry.name, elements_of(chunk, first, shape));
    }
  }

  CachingAllocator& allocator_;
  Stream& stream_;
  DType arithmetic_;
  std::vector<ParameterChunk> stepped_;
  std::vector<TensorView> main_grads_;  ///< of all parameters
  std::optional<LossScaler> scaler_;
  std::optional<GradientClipping> clipping_;
  std::optional<LearningRate> learning_rate_;
  std::deque<Buffer> buffers_;
  std::vector<ChunkState> chunk_states_;
  std::vector<TensorView> state_chunks_;
  std::vector<std::pair<std::string, TensorView>> state_;
};

class SgdOptimizer final : public ChunkOptimizer {
 public:
  SgdOptimizer(const matrix::Cell& cell, StageModel& model, CachingAllocator& allocator,
               Stream& stream, Communicator* gang, std::vector<ParameterChunk> stepped)
      : ChunkOptimizer(cell, model, allocator, stream, gang, std::move(stepped)) {
    make_states(model, "velocity", nullptr);
  }

 private:
  void step_chunks(Stream& stream, const OptimizerScalars& scalars,
                   const TensorView& overflowed) override {
    for (const ChunkState& chunk : chunk_states()) {
      sgd_step(stream, chunk.main_weights, chunk.first, chunk.parameters.main_grads,
               scalars.learning_rate, overflowed, {}, "sgd step");
    }
  }
  TensorView step_counter() const override { return {}; }
};

class AdamOptimizer final : public ChunkOptimizer {
 public:
  AdamOptimizer(const matrix::Cell& cell, StageModel& model, CachingAllocator& allocator,
                Stream& stream, Communicator* gang, std::vector<ParameterChunk> stepped)
      : ChunkOptimizer(cell, model, allocator, stream, gang, std::move(stepped)),
        step_(add_scalar_state(DType::int64, "step")) {
    make_states(model, "exp_avg", "exp_avg_sq");
  }

 private:
  void step_chunks(Stream& stream, const OptimizerScalars& scalars,
                   const TensorView& overflowed) override {
    advance_step(stream, step_, overflowed, "adam step");
    for (const ChunkState& chunk : chunk_states()) {
      adam_step(stream, chunk.main_weights, chunk.first, chunk.second, chunk.parameters.main_grads,
                scalars.learning_rate, scalars.step, overflowed, {}, "adam step");
    }
  }

  TensorView step_counter() const override { return step_; }

  TensorView step_;
};

}  // namespace

std::unique_ptr<StageOptimizer> make_stage_optimizer(const matrix::Cell& cell, StageModel& model,
                                                     CachingAllocator& allocator, Stream& stream,
                                                     Communicator* gang,
                                                     std::vector<ParameterChunk> stepped) {
  if (cell.shape.optimizer == matrix::Optimizer::sgd) {
    return std::make_unique<SgdOptimizer>(cell, model, allocator, stream, gang, std::move(stepped));
  }
  return std::make_unique<AdamOptimizer>(cell, model, allocator, stream, gang, std::move(stepped));
}

std::unique_ptr<StageOptimizer> make_stage_optimizer(const matrix::Cell& cell, StageModel& model,
                                                     CachingAllocator& allocator, Stream& stream,
                                                     Communicator* gang) {
  const std::span<const ParameterChunk> all = model.parameter_chunks();
  return make_stage_optimizer(cell, model, allocator, stream, gang, {all.begin(), all.end()});
}

}  // namespace cgconform::workloads
