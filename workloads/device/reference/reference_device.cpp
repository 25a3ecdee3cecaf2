#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "workloads/allocator/segment_kind.hpp"
#include "workloads/allocator/straddling_source.hpp"
#include "workloads/device/device.hpp"
#include "workloads/device/reference/arena.hpp"
#include "workloads/device/reference/core.hpp"
#include "workloads/device/reference/gloo_communicator.hpp"
#include "workloads/device/reference/gloo_mesh.hpp"
#include "workloads/device/reference/reference_stream.hpp"

namespace cgconform::workloads {
namespace reference {
namespace {

/// What a graph can retain; tells its maker when it goes.
class UserObject {
 public:
  UserObject(std::shared_ptr<Core> core, std::function<void()> released)
      : core_(std::move(core)),
        live_(core_->live_objects().user_objects),
        released_(std::move(released)) {}
  ~UserObject() { released_(); }
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

 private:
  std::shared_ptr<Core> core_;
  LiveObject live_;
  std::function<void()> released_;
};

class ReferenceDevice : public Device, public SegmentSources {
 public:
  explicit ReferenceDevice(const ReferenceDeviceOptions& options)
      : properties_{.kind = "reference",
                    .name = "host reference device",
                    .compute_capability = 90,
                    .memory_bytes = options.arena_bytes},
        core_(std::make_shared<Core>(options)),
        arena_(*core_, options.arena_bytes),
        expandable_(arena_, segment_kind_name(SegmentKind::expandable), ::sysconf(_SC_PAGESIZE)),
        legacy_(core_, core_->legacy_stream()) {}

  // Streams may outlive the device; their work must not outlive the arena.
  ~ReferenceDevice() override { core_->executor().stop(); }
  ReferenceDevice(const ReferenceDevice&) = delete;
  ReferenceDevice& operator=(const ReferenceDevice&) = delete;

  const DeviceProperties& properties() const override { return properties_; }

  std::unique_ptr<Stream> create_stream(std::string name, StreamKind kind) override {
    return core_->call("create stream", name, [&]() -> std::unique_ptr<Stream> {
      return std::make_unique<ReferenceStream>(core_, core_->create_stream(name, kind, false));
    });
  }
  Stream& legacy_stream() override { return legacy_; }
  std::unique_ptr<Event> create_event(EventKind kind) override {
    return core_->call("create event", {}, [&]() -> std::unique_ptr<Event> {
      return std::make_unique<ReferenceEvent>(core_, kind);
    });
  }
  std::unique_ptr<Communicator> create_communicator(CommunicatorOptions options) override {
    return core_->call("create communicator", options.name, [&]() -> std::unique_ptr<Communicator> {
      core_->require_safe(CaptureViolation::create_communicator, "create communicator");
      require_sound(options);
      return create_gloo_communicator(core_, options, transport(options));
    });
  }
  SegmentSource& segment_source() override { return arena_; }
  /// Pages stand for the chunks of expandable segments; the order of streams changes nothing here.
  SegmentSource& segments(SegmentKind kind) override {
    if (kind == SegmentKind::expandable) return expandable_;
    return arena_;
  }
  void synchronize() override {
    core_->call("device synchronize", {}, [&] { core_->synchronize_device(); });
  }
  LaunchCounters counters() const override { return core_->counters(); }
  void reset_counters() override { core_->reset_counters(); }
  ResourceUse resource_use() const override {
    ResourceUse use = core_->live_objects().use();
    use.segment_bytes = arena_.bytes_in_use();
    use.streams = core_->live_streams();
    return use;
  }
  std::int64_t used_bytes() const override { return arena_.bytes_in_use(); }
  std::shared_ptr<void> create_user_object(std::function<void()> released) override {
    return core_->call("create user object", {}, [&] {
      return std::shared_ptr<void>(std::make_shared<UserObject>(core_, std::move(released)));
    });
  }
  void set_call_observer(CallObserver observer) override {
    core_->set_observer(std::move(observer));
  }
  void set_replay_seed(std::uint64_t seed) override { core_->set_replay_seed(seed); }

 private:
  static void require_sound(const CommunicatorOptions& options) {
    const bool sound = options.size >= 1 && options.rank >= 0 && options.rank < options.size &&
                       (options.size == 1 || options.store != nullptr);
    if (sound) return;
    throw DeviceError(ErrorCategory::communicator_invalid_usage, "create communicator",
                      fmt::format("'{}': rank {} of {}; a rank must be below the size, and more "
                                  "than one rank needs a store",
                                  options.name, options.rank, options.size));
  }

  std::shared_ptr<gloo::transport::Device> transport(const CommunicatorOptions& options) {
    if (options.size == 1) return nullptr;
    auto& endpoint = transports_[options.network_interface];
    if (endpoint == nullptr) endpoint = create_gloo_device(options.network_interface);
    return endpoint;
  }

  DeviceProperties properties_;
  std::shared_ptr<Core> core_;
  ReferenceArena arena_;
  StraddlingSource expandable_;
  ReferenceStream legacy_;
  std::map<std::string, std::shared_ptr<gloo::transport::Device>> transports_;  ///< by interface
};

}  // namespace
}  // namespace reference

std::unique_ptr<Device> create_reference_device(const ReferenceDeviceOptions& options) {
  return std::make_unique<reference::ReferenceDevice>(options);
}

}  // namespace cgconform::workloads
