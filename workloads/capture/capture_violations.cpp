#include "workloads/capture/capture_violations.hpp"

#include <array>
#include <cstdint>

namespace cgconform::workloads {
namespace {

/// A block that a captured copy may read for as long as the process lives.
constexpr std::array<std::uint64_t, 1> token_counts{8};
constexpr std::int64_t segment_bytes = std::int64_t{1} << 20;
constexpr const char* label = "call that capture refuses";

}  // namespace

void CaptureViolations::prepare() {
  if (context_.fault(Fault::f19b_wait_for_earlier_event)) {
    earlier_ = context_.device().create_event();
    context_.memory.loader->record(*earlier_);
  }
  const bool touches_memory =
      context_.fault(Fault::f19c_fork_not_joined) || context_.fault(Fault::f19d_legacy_stream) ||
      context_.fault(Fault::f19h_read_to_host) || context_.fault(Fault::f19i_pageable_upload);
  if (!touches_memory || scratch_.valid()) return;
  scratch_ = Buffer(context_.allocator(), context_.stream(), default_pool, DType::uint64, Shape{1},
                    "token counts");
  context_.stream().fill(scratch_.view(), 0, label);
}

void CaptureViolations::commit() {
  Device& device = context_.device();
  Stream& stream = context_.stream();
  if (context_.fault(Fault::f19a_device_synchronize)) device.synchronize();
  if (earlier_) stream.wait(*earlier_);
  if (context_.fault(Fault::f19c_fork_not_joined)) leave_fork_unjoined(scratch_.view());
  if (context_.fault(Fault::f19d_legacy_stream)) {
    device.legacy_stream().fill(scratch_.view(), 0, label);
  }
  if (context_.fault(Fault::f19e_two_captures_joined)) merge_two_captures();
  if (context_.fault(Fault::f19f_captured_event_queried)) {
    const std::unique_ptr<Event> event = device.create_event();
    stream.record(*event);
    event->query();
  }
  if (context_.fault(Fault::f19g_memory_allocated)) {
    device.segment_source().release(device.segment_source().allocate(segment_bytes));
  }
  if (context_.fault(Fault::f19h_read_to_host)) {
    std::array<std::uint64_t, 1> host{};
    stream.download(host.data(), scratch_.view());
  }
  if (context_.fault(Fault::f19i_pageable_upload)) {
    stream.upload(scratch_.view(), token_counts.data(), false, label);
  }
}

void CaptureViolations::leave_fork_unjoined(const TensorView& scratch) {
  Stream& side = context_.memory.side_stream(0);
  const std::unique_ptr<Event> forked = context_.device().create_event();
  context_.stream().record(*forked);
  side.wait(*forked);
  side.fill(scratch, 0, label);
}

void CaptureViolations::merge_two_captures() {
  Stream& other = context_.memory.side_stream(0);
  other.begin_capture(CaptureMode::thread_local_mode);
  const auto end_other = [&other] {
    try {
      other.end_capture();
    } catch (const DeviceError&) {
      // The merge has invalidated it; that it ends is all that counts.
      return;
    }
  };
  try {
    const std::unique_ptr<Event> inside = context_.device().create_event();
    other.record(*inside);
    context_.stream().wait(*inside);
  } catch (const DeviceError&) {
    end_other();
    throw;
  }
  end_other();
}

}  // namespace cgconform::workloads
