#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "matrix/cell.hpp"
#include "tests/workloads/host_tensor.hpp"
#include "tests/workloads/test_ops.hpp"
#include "workloads/faults/fault_switches.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads::test {

/// Keeps copies of what layers offer.
class KeepingTap final : public TensorTap {
 public:
  explicit KeepingTap(Stream& stream) : stream_(stream) {}
  void tap(std::string_view tensor, const TensorView& value) override {
    std::vector<std::byte> bytes(static_cast<std::size_t>(value.bytes()));
    stream_.download(bytes.data(), value);
    tapped.emplace_back(tensor, std::move(bytes));
  }
  std::vector<std::pair<std::string, std::vector<std::byte>>> tapped;

 private:
  Stream& stream_;
};

/// A reference device with what a layer needs to be called.
struct LayerFixture : DeviceFixture {
  LayerFixture() { reset_rng(); }

  template <typename T>
  Buffer put(const Shape& shape, const std::vector<T>& values) {
    Buffer result(allocator, *stream, default_pool, dtype_of<T>(), shape, "test input");
    stream->upload(result.view(), values.data(), false, "test input");
    return result;
  }
  template <typename T>
  Buffer put(const HostTensor<T>& tensor) {
    return put(tensor.shape, tensor.values);
  }
  /// The elements of a floating tensor, widened to double.
  std::vector<double> get(const TensorView& tensor) {
    std::vector<double> wide(static_cast<std::size_t>(tensor.elements()));
    if (tensor.dtype == DType::fp64) {
      stream->download(wide.data(), tensor);
    } else {
      std::vector<float> narrow(wide.size());
      stream->download(narrow.data(), tensor);
      std::copy(narrow.begin(), narrow.end(), wide.begin());
    }
    return wide;
  }
  void set(const TensorView& tensor, const std::vector<double>& values) {
    stream->upload(tensor, values.data(), false, "test value");
  }
  std::vector<std::uint64_t> rng_state(RngStream from = RngStream::data_parallel) {
    std::vector<std::uint64_t> state(2);
    stream->download(state.data(), RngState{rng.view()}.at(from));
    return state;
  }
  void reset_rng(std::uint64_t offset = 0) {
    const std::vector<std::uint64_t> state{99, offset, 98, offset, 97, offset};
    stream->upload(rng.view(), state.data(), false, "reset rng");
  }
  LayerContext context(PoolId pool = default_pool) {
    return {.stream = *stream,
            .allocator = allocator,
            .pool = pool,
            .rng = {rng.view()},
            .faults = faults,
            .tap = nullptr,
            .training = true,
            .step = 0,
            .microbatch = 0,
            .label = "test"};
  }

  FaultSwitches faults;
  Buffer rng{allocator, *stream, default_pool, DType::uint64, Shape{3, 2}, "rng"};
};

/// A dense cell small enough for finite differences.
inline matrix::Cell small_cell(matrix::ParamsDtype dtype = matrix::ParamsDtype::fp64) {
  matrix::Cell cell;
  cell.config.params_dtype = dtype;
  cell.config.num_layers = 2;
  cell.config.hidden_size = 4;
  cell.config.num_attention_heads = 2;
  cell.config.seq_length = 3;
  cell.config.micro_batch_size = 2;
  cell.config.num_microbatches = 1;
  cell.config.attention_dropout = 0.0F;
  cell.config.hidden_dropout = 0.0F;
  cell.shape.vocab_size = 5;
  cell.shape.ffn_hidden_size = 6;
  return cell;
}

/// The stages of one model in one process, called one after the other.
class WholeModel {
 public:
  WholeModel(LayerFixture& fixture, const matrix::Cell& cell, std::uint64_t seed = 7)
      : fixture_(fixture), cell_(cell) {
    for (int stage = 0; stage < cell.config.pipeline_model_parallel_size; ++stage) {
      stages_.push_back(make_stage_model(cell, seed, stage, fixture.allocator, *fixture.stream));
    }
    Random random(seed);
    const std::int64_t rows = std::int64_t{cell.config.micro_batch_size} * cell.config.seq_length;
    tokens = random_indices(random, rows, cell.shape.vocab_size);
    labels = random_indices(random, rows, cell.shape.vocab_size);
    mask = HostTensor<double>(Shape{rows}, 1.0);
  }

  /// Mean loss of the batch; keeps what `backward` needs.
  double forward() {
    saved_.clear();
    LayerContext context = fixture_.context();
    tokens_ = fixture_.put(tokens);
    labels_ = fixture_.put(labels);
    mask_ =
        cell_.config.params_dtype == matrix::ParamsDtype::fp64
            ? fixture_.put(mask)
            : fixture_.put(mask.shape, std::vector<float>(mask.values.begin(), mask.values.end()));
    Buffer hidden = stages_.front()->embed(context, {tokens_.view(), {}});
    for (const auto& stage : stages_) {
      for (Layer* layer : stage->layers()) {
        saved_.emplace_back();
        hidden = layer->forward(context, hidden.view(), saved_.back());
      }
    }
    saved_.emplace_back();
    const Buffer loss =
        stages_.back()->loss(context, hidden.view(), labels_.view(), mask_.view(), saved_.back());
    return fixture_.get(loss.view()).front();
  }

  void backward() {
    LayerContext context = fixture_.context();
    auto saved = saved_.rbegin();
    Buffer grad =
        stages_.back()->loss_backward(context, labels_.view(), mask_.view(), {}, *saved++);
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      const auto layers = (*stage)->layers();
      for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
        grad = (*layer)->backward(context, grad.view(), *saved++);
      }
    }
    stages_.front()->embed_backward(context, {tokens_.view(), {}}, grad.view());
  }

  void zero_gradients() {
    for (const StageParameter& parameter : parameters()) {
      fixture_.stream->fill(parameter.parameter.main_grad, 0, "zero");
    }
  }

  /// Of all stages, sorted by name so that splits can be compared.
  std::vector<StageParameter> parameters() const {
    std::vector<StageParameter> all;
    for (const auto& stage : stages_) {
      all.insert(all.end(), stage->parameters().begin(), stage->parameters().end());
    }
    std::sort(all.begin(), all.end(),
              [](const StageParameter& a, const StageParameter& b) { return a.name < b.name; });
    return all;
  }
  std::vector<std::vector<double>> gradients() {
    std::vector<std::vector<double>> all;
    for (const StageParameter& entry : parameters()) {
      all.push_back(fixture_.get(entry.parameter.main_grad));
    }
    return all;
  }
  StageModel& stage(std::size_t index) { return *stages_[index]; }

  HostTensor<std::int32_t> tokens{Shape{1}};
  HostTensor<std::int32_t> labels{Shape{1}};
  HostTensor<double> mask{Shape{1}};

 private:
  LayerFixture& fixture_;
  matrix::Cell cell_;
  std::vector<std::unique_ptr<StageModel>> stages_;
  std::vector<SavedActivations> saved_;
  Buffer tokens_;
  Buffer labels_;
  Buffer mask_;
};

}  // namespace cgconform::workloads::test
