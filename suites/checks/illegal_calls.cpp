#include "suites/checks/illegal_calls.hpp"

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::suites::checks {

using workloads::Buffer;
using workloads::CaptureMode;
using workloads::CaptureStatus;
using workloads::Device;
using workloads::DeviceError;
using workloads::ErrorCategory;
using workloads::Event;
using workloads::Stream;

/// Streams, events and a tensor for one call, and the way back to a usable device.
class CaptureScene {
 public:
  explicit CaptureScene(Device& used_device)
      : device(used_device),
        main(used_device.create_stream("capturing")),
        side(used_device.create_stream("side")),
        other(used_device.create_stream("other")),
        event(used_device.create_event(workloads::EventKind::timing)),
        second_event(used_device.create_event(workloads::EventKind::timing)),
        allocator_(used_device.segment_source()),
        tensor(allocator_, *main, workloads::default_pool, workloads::DType::fp32,
               workloads::Shape{elements}, "scene") {
    work(*main);
    main->synchronize();
  }

  void begin(CaptureMode mode = CaptureMode::global) { main->begin_capture(mode); }
  void work(Stream& stream) { stream.fill(tensor.view(), 0, "scene work"); }
  /// Makes the side stream a branch of the capture, with work on it.
  void fork() {
    main->record(*event);
    side->wait(*event);
    work(*side);
  }

  /// Ends whatever captures and does eager work on every stream; throws where that fails.
  void recover() {
    for (Stream* stream : {main.get(), other.get(), side.get()}) {
      if (stream->capture_status() == CaptureStatus::none) continue;
      try {
        stream->end_capture();
      } catch (const DeviceError&) {
        // A capture that was invalidated ends with an error; what counts is that it ends.
      }
    }
    for (Stream* stream : {main.get(), side.get(), other.get()}) {
      work(*stream);
      stream->synchronize();
    }
    device.synchronize();
  }

  static constexpr std::int64_t elements = 4;
  Device& device;
  std::unique_ptr<Stream> main;
  std::unique_ptr<Stream> side;
  std::unique_ptr<Stream> other;
  std::unique_ptr<Event> event;
  std::unique_ptr<Event> second_event;

 private:
  workloads::CachingAllocator allocator_;

 public:
  Buffer tensor;
};

namespace {

void synchronize_stream(CaptureScene& scene) {
  scene.begin();
  scene.main->synchronize();
}

void query_stream(CaptureScene& scene) {
  scene.begin();
  scene.main->query();
}

void synchronize_device(CaptureScene& scene) {
  scene.begin();
  scene.device.synchronize();
}

void query_event(CaptureScene& scene) {
  scene.begin();
  scene.main->record(*scene.event);
  scene.event->query();
}

void synchronize_event(CaptureScene& scene) {
  scene.begin();
  scene.main->record(*scene.event);
  scene.event->synchronize();
}

void wait_for_earlier_event(CaptureScene& scene) {
  scene.other->record(*scene.event);
  scene.begin();
  scene.main->wait(*scene.event);
}

void use_legacy_stream(CaptureScene& scene) {
  scene.begin();
  scene.work(scene.device.legacy_stream());
}

void capture_legacy_stream(CaptureScene& scene) {
  scene.device.legacy_stream().begin_capture(CaptureMode::global);
}

void allocate_memory(CaptureScene& scene) {
  scene.begin();
  scene.device.segment_source().allocate(std::int64_t{1} << 20);
}

void allocate_memory_thread_local(CaptureScene& scene) {
  scene.begin(CaptureMode::thread_local_mode);
  scene.device.segment_source().allocate(std::int64_t{1} << 20);
}

void copy_to_host(CaptureScene& scene) {
  std::array<float, CaptureScene::elements> host{};
  scene.begin();
  scene.main->download(host.data(), scene.tensor.view());
}

void leave_fork_unjoined(CaptureScene& scene) {
  scene.begin();
  scene.fork();
  scene.main->end_capture();
}

void merge_two_captures(CaptureScene& scene) {
  scene.begin();
  scene.other->begin_capture(CaptureMode::global);
  scene.other->record(*scene.event);
  scene.main->wait(*scene.event);
}

void end_on_forked_stream(CaptureScene& scene) {
  scene.begin();
  scene.fork();
  scene.side->end_capture();
}

void end_on_another_thread(CaptureScene& scene) {
  scene.begin();
  std::exception_ptr error;
  std::thread thread([&] {
    try {
      scene.main->end_capture();
    } catch (...) {
      error = std::current_exception();
    }
  });
  thread.join();
  if (error) std::rethrow_exception(error);
}

void begin_twice(CaptureScene& scene) {
  scene.begin();
  scene.begin();
}

void end_without_begin(CaptureScene& scene) {
  scene.main->end_capture();
}

/// Makes a call that must be refused, and goes on.
void refuse_first(const std::function<void()>& call) {
  try {
    call();
  } catch (const DeviceError&) {
    // The call under test comes after this one.
  }
}

void work_after_invalidation(CaptureScene& scene) {
  scene.begin();
  refuse_first([&] { scene.main->synchronize(); });
  scene.work(*scene.main);
}

void end_after_invalidation(CaptureScene& scene) {
  scene.begin();
  refuse_first([&] { scene.main->synchronize(); });
  scene.main->end_capture();
}

void instantiate_in_capture(CaptureScene& scene) {
  scene.other->begin_capture(CaptureMode::relaxed);
  scene.work(*scene.other);
  const auto graph = scene.other->end_capture();
  scene.begin();
  graph->instantiate();
}

constexpr std::array calls{
    IllegalCall{"synchronise the capturing stream", ErrorCategory::stream_capture_unsupported,
                synchronize_stream},
    IllegalCall{"query the capturing stream", ErrorCategory::stream_capture_unsupported,
                query_stream},
    IllegalCall{"synchronise the device", ErrorCategory::stream_capture_unsupported,
                synchronize_device},
    IllegalCall{"query a captured event", ErrorCategory::captured_event, query_event},
    IllegalCall{"synchronise a captured event", ErrorCategory::captured_event, synchronize_event},
    IllegalCall{"wait for an event recorded outside", ErrorCategory::stream_capture_isolation,
                wait_for_earlier_event},
    IllegalCall{"use the legacy stream", ErrorCategory::stream_capture_implicit, use_legacy_stream},
    IllegalCall{"capture the legacy stream", ErrorCategory::stream_capture_unsupported,
                capture_legacy_stream},
    IllegalCall{"allocate memory in global mode", ErrorCategory::stream_capture_unsupported,
                allocate_memory},
    IllegalCall{"allocate memory in thread-local mode", ErrorCategory::stream_capture_unsupported,
                allocate_memory_thread_local},
    IllegalCall{"copy to pageable host memory", ErrorCategory::stream_capture_unsupported,
                copy_to_host},
    IllegalCall{"end with an unjoined fork", ErrorCategory::stream_capture_unjoined,
                leave_fork_unjoined},
    IllegalCall{"merge two captures", ErrorCategory::stream_capture_merge, merge_two_captures},
    IllegalCall{"end on a forked stream", ErrorCategory::stream_capture_unmatched,
                end_on_forked_stream},
    IllegalCall{"end on another thread", ErrorCategory::stream_capture_wrong_thread,
                end_on_another_thread},
    IllegalCall{"begin twice", ErrorCategory::illegal_state, begin_twice},
    IllegalCall{"end without a beginning", ErrorCategory::illegal_state, end_without_begin},
    IllegalCall{"work after invalidation", ErrorCategory::stream_capture_invalidated,
                work_after_invalidation},
    IllegalCall{"end after invalidation", ErrorCategory::stream_capture_invalidated,
                end_after_invalidation},
    IllegalCall{"instantiate a graph in a capture", ErrorCategory::stream_capture_unsupported,
                instantiate_in_capture},
};

std::string code_text(ErrorCategory category) {
  return fmt::format("{} ({})", workloads::error_category_name(category),
                     static_cast<int>(category));
}

}  // namespace

std::span<const IllegalCall> illegal_calls() {
  return calls;
}

CheckResult judge_illegal_calls(Device& device, std::span<const IllegalCall> made) {
  for (const IllegalCall& call : made) {
    CaptureScene scene(device);
    ErrorCategory seen = ErrorCategory::success;
    try {
      call.make(scene);
    } catch (const DeviceError& error) {
      seen = error.category();
    }
    if (seen != call.expected) {
      return {.verdict = Verdict::fail_capture,
              .detail = fmt::format("{}: {} expected, {} given", call.name,
                                    code_text(call.expected), code_text(seen))};
    }
    try {
      scene.recover();
    } catch (const DeviceError& error) {
      return {.verdict = Verdict::fail_recovery,
              .detail = fmt::format("after '{}': {}", call.name, error.what())};
    }
  }
  return {.detail = fmt::format("{} illegal calls gave their codes", made.size())};
}

CheckResult judge_capture_rules(ScenarioContext& context) {
  return judge_illegal_calls(*context.device, illegal_calls());
}

}  // namespace cgconform::suites::checks
