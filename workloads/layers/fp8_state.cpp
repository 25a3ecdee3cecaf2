#include "workloads/layers/fp8_state.hpp"

#include <cmath>

#include "matrix/error.hpp"
#include "workloads/faults/fault_switches.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::int64_t counters = 3;
constexpr std::uint8_t not_zero = 0x3F;  // in every byte: a number about 0.75

}  // namespace

Fp8State::Fp8State(const matrix::Cell& cell, CachingAllocator& allocator, Stream& stream,
                   Communicator* amax_group)
    : allocator_(allocator),
      stream_(stream),
      amax_group_(amax_group),
      delayed_(cell.config.fp8_recipe == matrix::Fp8Recipe::delayed),
      gradient_format_(cell.config.fp8 == matrix::Fp8Format::hybrid ? EightBitFormat::e5m2
                                                                    : EightBitFormat::e4m3),
      update_{.headroom = std::ldexp(1.0F, cell.config.fp8_margin),
              .most_recent =
                  cell.config.fp8_amax_compute_algo == matrix::Fp8AmaxComputeAlgo::most_recent},
      history_length_(cell.config.fp8_amax_history_len) {}

std::int32_t Fp8State::add_linear() {
  if (memory_.valid()) throw InternalError("fp8 state: a linear layer after initialise");
  return linears_++;
}

void Fp8State::initialise() {
  update_.tensors = update_.count = linears_ * operands_a_linear;
  const std::int64_t count = update_.tensors;
  const std::int64_t length = history_length_;
  const std::int64_t elements = (2 + descale_stride + length) * count + counters;
  memory_ = Buffer(allocator_, stream_, default_pool, DType::fp32, Shape{elements}, "fp8 state");
  largest_ = Buffer(allocator_, stream_, default_pool, DType::fp32, Shape{count}, "fp8 limits");
  const std::int64_t after_reciprocals = descale_stride * count;
  scaling_ = {.scale = part(after_reciprocals, Shape{count}),
              .descale = part(0, Shape{count, descale_stride}),
              .history = part(after_reciprocals + 2 * count, Shape{length, count}),
              .newest = part(after_reciprocals + count, Shape{count}),
              .updates = part(elements - counters, Shape{}),
              .largest = largest_.view()};
  refreshes_ = part(elements - counters + 1, Shape{});
  weights_cached_ = part(elements - counters + 2, Shape{});
  stream_.fill(memory(), 0, "fp8 state");
  const std::vector<float> ones(static_cast<std::size_t>(scaling_.descale.shape.elements()), 1.0F);
  stream_.upload(scaling_.scale, ones.data(), false, "fp8 scales");
  stream_.upload(scaling_.descale, ones.data(), false, "fp8 scales");
  std::vector<float> limits;
  for (std::int64_t tensor = 0; tensor < count; ++tensor) {
    const bool gradient = tensor % operands_a_linear + 1 == operands_a_linear;
    const EightBitFormat format = gradient ? gradient_format_ : EightBitFormat::e4m3;
    limits.push_back(eight_bit::layout_of(format).largest);
  }
  stream_.upload(largest_.view(), limits.data(), false, "fp8 limits");
}

TensorView Fp8State::part(std::int64_t first, const Shape& shape) const {
  return elements_of(memory_.view(), first, shape);
}

Fp8Scaling Fp8State::scaling(std::int32_t linear, Fp8Operand operand) const {
  const std::int64_t tensor =
      std::int64_t{linear} * operands_a_linear + static_cast<std::int32_t>(operand);
  const bool gradient = operand == Fp8Operand::grad_output;
  return {.scale = elements_of(scaling_.scale, tensor, Shape{}),
          .descale = elements_of(scaling_.descale, tensor * descale_stride, Shape{}),
          .amax = elements_of(scaling_.history, tensor, Shape{}),
          .format = gradient ? gradient_format_ : EightBitFormat::e4m3};
}

TensorView Fp8State::keep_bytes(const Shape& shape) {
  const Buffer& kept = kept_.emplace_back(allocator_, stream_, default_pool, DType::uint8, shape,
                                          "quantised weight");
  stream_.fill(kept.view(), 0, "quantised weight");
  return kept.view();
}

void Fp8State::begin_microbatch(Stream& stream, std::int32_t microbatch,
                                const FaultSwitches& faults) {
  if (faults.is_on(Fault::f12d_weight_cache_not_announced)) return;
  stream.fill(weights_cached_, microbatch == 0 ? 0 : not_zero, "fp8 weights are cached");
}

void Fp8State::reduce(Stream& stream, const TensorView& magnitudes) {
  if (amax_group_ == nullptr) return;
  amax_group_->all_reduce(magnitudes, magnitudes, ReduceOp::max, stream, std::string(amax_label));
}

void Fp8State::end_step(Stream& stream, const FaultSwitches& faults) {
  if (!delayed_) return;
  const bool late = faults.is_on(Fault::f12b_amax_reduced_late);
  UpdateScalesParams params = update_;
  if (faults.is_on(Fault::f12a_history_roll_left_out)) {
    params.first += operands_a_linear;
    params.count -= operands_a_linear;
  }
  if (!late) reduce(stream, elements_of(scaling_.history, 0, Shape{std::int64_t{params.tensors}}));
  fp8_update_scales(stream, scaling_, params, "fp8 scales");
  if (late) reduce(stream, scaling_.newest);
}

void Fp8State::update_again(Stream& stream, std::int32_t linear) {
  UpdateScalesParams params = update_;
  params.first = linear * operands_a_linear;
  params.count = operands_a_linear;
  fp8_update_scales(stream, scaling_, params, "fp8 scales of a recompute");
}

std::vector<TensorView> Fp8State::tensors() const {
  std::vector<TensorView> all{memory_.view(), largest_.view()};
  for (const Buffer& kept : kept_) all.push_back(kept.view());
  return all;
}

std::vector<std::pair<std::string, TensorView>> Fp8State::state() const {
  std::vector<std::pair<std::string, TensorView>> parts{{"fp8 scale", scaling_.scale},
                                                        {"fp8 weight refreshes", refreshes_}};
  if (!delayed_) return parts;
  parts.emplace_back("fp8 amax", scaling_.newest);
  parts.emplace_back("fp8 amax history", scaling_.history);
  parts.emplace_back("fp8 updates", scaling_.updates);
  return parts;
}

}  // namespace cgconform::workloads
