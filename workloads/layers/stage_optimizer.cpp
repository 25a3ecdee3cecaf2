#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "workloads/ops/optimizer.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

namespace {

constexpr double initial_learning_rate = 0.01;

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

  TensorView learning_rate(DType dtype) {
    Buffer& buffer =
        buffers_.emplace_back(allocator_, stream_, default_pool, dtype, Shape{}, "learning_rate");
    if (dtype == DType::fp64) {
      stream_.upload(buffer.view(), &initial_learning_rate, false, "learning_rate");
    } else {
      const auto narrow = static_cast<float>(initial_learning_rate);
      stream_.upload(buffer.view(), &narrow, false, "learning_rate");
    }
    return buffer.view();
  }

  const std::vector<std::pair<std::string, TensorView>>& state() const { return state_; }

 private:
  CachingAllocator& allocator_;
  Stream& stream_;
  std::deque<Buffer> buffers_;
  std::vector<std::pair<std::string, TensorView>> state_;
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
      : memory_(allocator, stream), learning_rate_(memory_.learning_rate(dtype)) {
    for (const StageParameter& entry : model.parameters()) {
      const Shape& shape = entry.parameter.weight.shape;
      slots_.push_back({"sgd " + entry.name,
                        entry.parameter,
                        memory_.zeros(dtype, shape, "velocity:" + entry.name),
                        {}});
    }
  }

  void step(Stream& stream) override {
    for (const Slot& slot : slots_) {
      sgd_step(stream, slot.parameter.weight, slot.first, slot.parameter.main_grad, learning_rate_,
               {}, slot.label);
    }
  }
  std::vector<std::pair<std::string, TensorView>> state() const override { return memory_.state(); }

 private:
  OptimizerMemory memory_;
  TensorView learning_rate_;
  std::vector<Slot> slots_;
};

class AdamOptimizer final : public StageOptimizer {
 public:
  AdamOptimizer(DType dtype, StageModel& model, CachingAllocator& allocator, Stream& stream)
      : memory_(allocator, stream),
        learning_rate_(memory_.learning_rate(dtype)),
        step_(memory_.zeros(DType::int64, {}, "step")) {
    for (const StageParameter& entry : model.parameters()) {
      const Shape& shape = entry.parameter.weight.shape;
      slots_.push_back({"adam " + entry.name, entry.parameter,
                        memory_.zeros(dtype, shape, "exp_avg:" + entry.name),
                        memory_.zeros(dtype, shape, "exp_avg_sq:" + entry.name)});
    }
  }

  void step(Stream& stream) override {
    advance_step(stream, step_, "adam step");
    for (const Slot& slot : slots_) {
      adam_step(stream, slot.parameter.weight, slot.first, slot.second, slot.parameter.main_grad,
                learning_rate_, step_, {}, slot.label);
    }
  }
  std::vector<std::pair<std::string, TensorView>> state() const override { return memory_.state(); }

 private:
  OptimizerMemory memory_;
  TensorView learning_rate_;
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
