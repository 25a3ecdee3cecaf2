#include "workloads/lifecycle/doubling_range.hpp"

#include <cstdint>

#include "workloads/faults/fault_switches.hpp"

namespace cgconform::workloads {
namespace {

constexpr float headroom = 2.0F;
constexpr float first_range = 0.25F;
const char* const label = "doubling range";

float range_of(std::size_t step) {
  return first_range * static_cast<float>(1U << step);
}

}  // namespace

DoublingRange::DoublingRange(Device& device, const FaultSwitches* faults)
    : faults_(faults),
      stream_(device.create_stream(label)),
      allocator_(device.segment_source()),
      x_(allocator_, *stream_, default_pool, DType::fp32, Shape{2, 4}, label),
      rows_(allocator_, *stream_, default_pool, DType::uint8, Shape{2, 4}, label),
      columns_(allocator_, *stream_, default_pool, DType::uint8, Shape{4, 2}, label),
      numbers_(allocator_, *stream_, default_pool, DType::fp32, Shape{6}, label),
      largest_(allocator_, *stream_, default_pool, DType::fp32, Shape{1}, label) {
  const State initial{2.0F * largest, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F};
  stream_->upload(numbers_.view(), initial.data(), false, label);
  stream_->upload(largest_.view(), &largest, false, label);
  stream_->synchronize();
}

DoublingRange::~DoublingRange() = default;

void DoublingRange::run_eagerly(std::size_t step) {
  put_input(step);
  work(false);
}

void DoublingRange::run_from_graph(std::size_t step) {
  if (exec_ == nullptr) {
    stream_->begin_capture(CaptureMode::thread_local_mode);
    work(true);
    exec_ = stream_->end_capture()->instantiate();
  }
  put_input(step);
  exec_->launch(*stream_);
}

DoublingRange::State DoublingRange::state() {
  State values{};
  stream_->download(values.data(), numbers_.view());
  return values;
}

float DoublingRange::largest_quantised() {
  std::array<std::uint8_t, 8> bits{};
  stream_->download(bits.data(), rows_.view());
  return eight_bit::value_of(bits.front(), EightBitFormat::e4m3);
}

float DoublingRange::expected_scale(std::size_t step) {
  return largest / (headroom * range_of(step));
}

void DoublingRange::put_input(std::size_t step) {
  std::array<float, 8> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    values.at(i) = range_of(step) * (1.0F - static_cast<float>(i) / 8.0F);
  }
  stream_->upload(x_.view(), values.data(), false, label);
}

void DoublingRange::work(bool captured) {
  fp8_quantise(*stream_, {rows_.view(), columns_.view()}, part(2, {}), x_.view(), part(0, {}),
               EightBitFormat::e4m3, label);
  const bool left_out =
      captured && faults_ != nullptr && faults_->is_on(Fault::f12a_history_roll_left_out);
  fp8_update_scales(*stream_,
                    {.scale = part(0, {1}),
                     .descale = part(1, {1, 1}),
                     .history = part(2, {2, 1}),
                     .newest = part(4, {1}),
                     .updates = part(5, {}),
                     .largest = largest_.view()},
                    {.tensors = 1, .count = left_out ? 0 : 1, .headroom = headroom}, label);
}

TensorView DoublingRange::part(std::int64_t first, const Shape& shape) const {
  TensorView view = numbers_.view();
  view.data = static_cast<float*>(view.data) + first;
  view.shape = shape;
  return view;
}

}  // namespace cgconform::workloads
