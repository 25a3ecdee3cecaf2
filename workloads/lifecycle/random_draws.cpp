#include "workloads/lifecycle/random_draws.hpp"

#include <array>

#include "workloads/faults/fault_switches.hpp"
#include "workloads/ops/dropout.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::int64_t elements = 64;
constexpr float probability = 0.5F;
constexpr std::array streams{RngStream::data_parallel, RngStream::tensor_parallel};
constexpr const char* label = "random draws";

bool is_on(const FaultSwitches* faults, Fault fault) {
  return faults != nullptr && faults->is_on(fault);
}

}  // namespace

RandomDraws::RandomDraws(Device& device, std::uint64_t seed, const RngPlace& place,
                         const FaultSwitches* faults)
    : stream_(device.create_stream("random draws")),
      allocator_(device.segment_source()),
      tracker_(allocator_, *stream_, seed, place),
      values_(allocator_, *stream_, default_pool, DType::fp32, Shape{elements}, label),
      dropped_(allocator_, *stream_, default_pool, DType::fp32, Shape{elements}, label) {
  stream_->fill(values_.view(), 0, label);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    masks_.emplace_back(allocator_, *stream_, default_pool, DType::uint8, Shape{elements}, label);
  }
  baked_ = save();
  // Nothing may be used for the first time in a capture.
  draw(nullptr);
  stream_->synchronize();
  stream_->begin_capture(CaptureMode::thread_local_mode);
  if (is_on(faults, Fault::f07c_graph_safe_request_dropped)) restore(baked_);
  draw(faults);
  graph_ = stream_->end_capture();
  exec_ = graph_->instantiate();
  reseed(seed);
}

Buffer RandomDraws::save() {
  return save_rng_state(*stream_, allocator_, default_pool, tracker_.state(), label);
}

void RandomDraws::restore(const Buffer& saved) {
  restore_rng_state(*stream_, tracker_.state(), saved.view(), label);
}

void RandomDraws::draw(const FaultSwitches* faults) {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const TensorView state = tracker_.state().at(streams.at(i));
    if (is_on(faults, Fault::f07a_offset_by_value)) {
      constexpr std::uint64_t offset_at_capture = 1;
      dropout_by_value(*stream_, dropped_.view(), masks_[i].view(), state, values_.view(),
                       probability, offset_at_capture, label);
      continue;
    }
    const std::uint32_t advance = is_on(faults, Fault::f07b_offset_not_advanced) ? 0 : 1;
    dropout_forward(*stream_, dropped_.view(), masks_[i].view(), state, values_.view(), probability,
                    advance, label);
  }
}

DrawnMasks RandomDraws::masks() {
  DrawnMasks drawn{std::vector<std::uint8_t>(elements), std::vector<std::uint8_t>(elements)};
  stream_->download(drawn.data_parallel.data(), masks_[0].view());
  stream_->download(drawn.tensor_parallel.data(), masks_[1].view());
  return drawn;
}

DrawnMasks RandomDraws::draw_eagerly() {
  draw(nullptr);
  return masks();
}

DrawnMasks RandomDraws::draw_from_graph() {
  exec_->launch(*stream_);
  return masks();
}

}  // namespace cgconform::workloads
