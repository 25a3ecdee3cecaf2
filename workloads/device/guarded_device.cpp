#include "workloads/device/guarded_device.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/allocator/segment_kind.hpp"

namespace cgconform::workloads {
namespace {

class GuardedDevice final : public Device, public SegmentSources {
 public:
  GuardedDevice(std::unique_ptr<Device> device, BlockPlacement placement)
      : device_(std::move(device)), source_(device_->unmappable_source(), placement) {}

  const DeviceProperties& properties() const override { return device_->properties(); }
  std::unique_ptr<Stream> create_stream(std::string name, StreamKind kind) override {
    return device_->create_stream(std::move(name), kind);
  }
  Stream& legacy_stream() override { return device_->legacy_stream(); }
  std::unique_ptr<Event> create_event(EventKind kind) override {
    return device_->create_event(kind);
  }
  std::unique_ptr<Communicator> create_communicator(CommunicatorOptions options) override {
    return device_->create_communicator(std::move(options));
  }
  SegmentSource& segment_source() override { return source_; }
  /// Every block has a mapping of its own, whatever kind of segments is asked for.
  SegmentSource& segments(SegmentKind /*kind*/) override { return source_; }
  SegmentSource& unmappable_source() override { return device_->unmappable_source(); }
  void synchronize() override { device_->synchronize(); }
  LaunchCounters counters() const override { return device_->counters(); }
  void settle_counters() override { device_->settle_counters(); }
  void reset_counters() override { device_->reset_counters(); }
  ResourceUse resource_use() const override { return device_->resource_use(); }
  std::int64_t used_bytes() const override { return device_->used_bytes(); }
  std::shared_ptr<void> create_user_object(std::function<void()> released) override {
    return device_->create_user_object(std::move(released));
  }
  void set_call_observer(CallObserver observer) override {
    device_->set_call_observer(std::move(observer));
  }
  void enter_phase(Phase phase) override { device_->enter_phase(phase); }
  std::vector<std::string> take_notes() override { return device_->take_notes(); }
  std::map<std::string, double> measurements() const override { return device_->measurements(); }
  void set_replay_seed(std::uint64_t seed) override { device_->set_replay_seed(seed); }

 private:
  std::unique_ptr<Device> device_;
  GuardedSource source_;
};

}  // namespace

std::unique_ptr<Device> with_guard_pages(std::unique_ptr<Device> device, BlockPlacement placement) {
  if (placement == BlockPlacement::packed) return device;
  return std::make_unique<GuardedDevice>(std::move(device), placement);
}

}  // namespace cgconform::workloads
