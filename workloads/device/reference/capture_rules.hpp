#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "workloads/device/errors.hpp"

namespace cgconform::workloads::reference {

/// A thing that must not be done around a capture. One row of the table each.
enum class CaptureViolation : std::uint8_t {
  synchronize_capturing_stream,
  query_capturing_stream,
  synchronize_device,
  query_captured_event,
  synchronize_captured_event,
  time_captured_event,
  synchronize_other_stream,
  query_other_stream,
  synchronize_other_event,
  query_other_event,
  allocate_segment,
  release_segment,
  instantiate_graph,
  create_communicator,
  launch_graph_into_capture,
  wait_outside_event,
  use_event_of_ended_capture,
  use_legacy_stream,
  legacy_waits_for_captured_event,
  capture_legacy_stream,
  merge_captures,
  end_unjoined,
  end_on_forked_stream,
  end_without_capture,
  end_on_other_thread,
  begin_twice,
  enqueue_after_invalidation,
  end_after_invalidation,
};

/// When a violation is one.
enum class ViolationScope : std::uint8_t {
  every_mode,
  /// CUDA's "potentially unsafe" calls: refused while the calling thread has a capture that is not
  /// relaxed, or any thread has a global one, unless the calling thread exchanged its mode.
  unsafe_call,
};

/// What becomes of the captures concerned.
enum class ViolationEffect : std::uint8_t { none, invalidates, ends };

/// One row: what is refused, with which category, and what it does to the capture.
struct CaptureRule {
  CaptureViolation violation;
  std::string_view id;
  ViolationScope scope;
  ErrorCategory category;
  ViolationEffect effect;
  std::string_view reason;
  std::string_view remedy;
};

/// Every rule, in the order of CaptureViolation. Measured call by call with the CUDA 13.0 runtime
/// on an H200 (driver 580.159.04), in each capture mode, on the capturing and on another thread.
std::span<const CaptureRule> capture_rules();
const CaptureRule& capture_rule(CaptureViolation violation);

}  // namespace cgconform::workloads::reference
