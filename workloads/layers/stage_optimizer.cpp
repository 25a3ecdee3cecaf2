#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "workloads/ops/optimizer.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

namespace {

constexpr double initial_learning_rate = 0.01;

/// Rises over a warm-up and falls afterwards: never the same in two steps that follow each other.
double scheduled_learning_rate(std::int32_t step) {
  constexpr double warmup = 8.0;
  const double number = step + 1.0;
  return initial_learning_rate * (number < warmup ? number / warmup : warmup / number);
}

/// Scalars and state common to the optimizers: all of it in device memory.
class OptimizerMemory {
 public:
  OptimizerMemory(CachingAllocator& allocator, Stream& stream)
      : allocator_(allocator), stream_(stream) {}

  TensorView zeros(DType dtype, const Shape& shape, std::string name) {
    Buffer& buffer = buffers_.emplace_back(allocator_, stream_, default_pool, dtype, shape, name);
    stream_.fill(buffer.view(), 0, "zero " + name);
    state_.emplace_back(std::move(name), buffer.view());
    return buffer.view();
  }

  TensorView scalar(DType dtype, const char* label) {
    return buffers_.emplace_back(allocator_, stream_, default_pool, dtype, Shape{}, label).view();
  }

  const std::vector<std::pair<std::string, TensorView>>& state() const { return state_; }

 private:
  CachingAllocator& allocator_;
  Stream& stream_;
  std::deque<Buffer> buffers_;
  std::vector<std::pair<std::string, TensorView>> state_;
};

/// The learning rate on the device, and the slots it comes from.
class LearningRate {
 public:
  LearningRate(OptimizerMemory& memory, DType dtype, Stream& stream)
      : value_(memory.scalar(dtype, "learning_rate")),
        slots_{memory.scalar(dtype, "learning_rate slot"),
               memory.scalar(dtype, "learning_rate slot")} {
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

/// A parameter with what the optimizer keeps for it; `second` is invalid for SGD.
struct Slot {
  std::string label;
  Parameter parameter;
  TensorView first;
  TensorView second;
};

class SgdOptimizer final : public StageOptimizer {
 public:
  SgdOptimizer(DType dtype, StageModel& model, CachingAllocator& allocator, Stream& stream)
      : memory_(allocator, stream), learning_rate_(memory_, dtype, stream) {
    for (const StageParameter& entry : model.parameters()) {
      const Shape& shape = entry.parameter.weight.shape;
      slots_.push_back({"sgd " + entry.name,
                        entry.parameter,
                        memory_.zeros(dtype, shape, "velocity:" + entry.name),
                        {}});
    }
  }

  void step_with(Stream& stream, const OptimizerScalars& scalars) override {
    for (const Slot& slot : slots_) {
      sgd_step(stream, slot.parameter.weight, slot.first, slot.parameter.main_grad,
               scalars.learning_rate, {}, slot.label);
    }
  }
  OptimizerScalars scalars() const override { return {learning_rate_.value(), {}}; }
  void stage_learning_rate(Stream& stream, std::int32_t step) override {
    learning_rate_.stage(stream, step);
  }
  void take_learning_rate(Stream& stream, std::int32_t step) override {
    learning_rate_.take(stream, step);
  }
  std::vector<std::pair<std::string, TensorView>> state() const override { return memory_.state(); }

 private:
  OptimizerMemory memory_;
  LearningRate learning_rate_;
  std::vector<Slot> slots_;
};

class AdamOptimizer final : public StageOptimizer {
 public:
  AdamOptimizer(DType dtype, StageModel& model, CachingAllocator& allocator, Stream& stream)
      : memory_(allocator, stream),
        learning_rate_(memory_, dtype, stream),
        step_(memory_.zeros(DType::int64, {}, "step")) {
    for (const StageParameter& entry : model.parameters()) {
      const Shape& shape = entry.parameter.weight.shape;
      slots_.push_back({"adam " + entry.name, entry.parameter,
                        memory_.zeros(dtype, shape, "exp_avg:" + entry.name),
                        memory_.zeros(dtype, shape, "exp_avg_sq:" + entry.name)});
    }
  }

  void step_with(Stream& stream, const OptimizerScalars& scalars) override {
    advance_step(stream, step_, "adam step");
    for (const Slot& slot : slots_) {
      adam_step(stream, slot.parameter.weight, slot.first, slot.second, slot.parameter.main_grad,
                scalars.learning_rate, scalars.step, {}, slot.label);
    }
  }
  OptimizerScalars scalars() const override { return {learning_rate_.value(), step_}; }
  void stage_learning_rate(Stream& stream, std::int32_t step) override {
    learning_rate_.stage(stream, step);
  }
  void take_learning_rate(Stream& stream, std::int32_t step) override {
    learning_rate_.take(stream, step);
  }
  std::vector<std::pair<std::string, TensorView>> state() const override { return memory_.state(); }

 private:
  OptimizerMemory memory_;
  LearningRate learning_rate_;
  TensorView step_;
  std::vector<Slot> slots_;
};

}  // namespace

std::unique_ptr<StageOptimizer> make_stage_optimizer(const matrix::Cell& cell, StageModel& model,
                                                     CachingAllocator& allocator, Stream& stream) {
  const DType dtype =
      cell.config.params_dtype == matrix::ParamsDtype::fp64 ? DType::fp64 : DType::fp32;
  if (cell.shape.optimizer == matrix::Optimizer::sgd) {
    return std::make_unique<SgdOptimizer>(dtype, model, allocator, stream);
  }
  return std::make_unique<AdamOptimizer>(dtype, model, allocator, stream);
}

}  // namespace cgconform::workloads
