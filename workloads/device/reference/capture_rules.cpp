#include "workloads/device/reference/capture_rules.hpp"

#include <array>
#include <cstddef>

namespace cgconform::workloads::reference {
namespace {

using Category = ErrorCategory;
using Effect = ViolationEffect;
using Scope = ViolationScope;
using Violation = CaptureViolation;

constexpr std::string_view end_first = "end the capture first";
constexpr std::string_view outside = "do it before the capture, or under a relaxed-mode exchange";

constexpr std::array<CaptureRule, 28> rules{{
    {Violation::synchronize_capturing_stream, "synchronize-capturing-stream", Scope::every_mode,
     Category::stream_capture_unsupported, Effect::invalidates,
     "the stream captures, nothing of it runs yet", end_first},
    {Violation::query_capturing_stream, "query-capturing-stream", Scope::every_mode,
     Category::stream_capture_unsupported, Effect::invalidates,
     "the stream captures, nothing of it runs yet", end_first},
    {Violation::synchronize_device, "synchronize-device", Scope::every_mode,
     Category::stream_capture_unsupported, Effect::invalidates, "a stream of the device captures",
     end_first},
    {Violation::query_captured_event, "query-captured-event", Scope::every_mode,
     Category::captured_event, Effect::invalidates, "the event was recorded in an open capture",
     end_first},
    {Violation::synchronize_captured_event, "synchronize-captured-event", Scope::every_mode,
     Category::captured_event, Effect::invalidates, "the event was recorded in an open capture",
     end_first},
    {Violation::time_captured_event, "time-captured-event", Scope::every_mode,
     Category::captured_event, Effect::none, "the event was recorded in an open capture",
     "time with events recorded outside captures"},
    {Violation::synchronize_other_stream, "synchronize-other-stream", Scope::unsafe_call,
     Category::stream_capture_unsupported, Effect::invalidates,
     "a capture forbids synchronisation of other streams", outside},
    {Violation::query_other_stream, "query-other-stream", Scope::unsafe_call,
     Category::stream_capture_unsupported, Effect::invalidates,
     "a capture forbids queries of other streams", outside},
    {Violation::synchronize_other_event, "synchronize-other-event", Scope::unsafe_call,
     Category::stream_capture_unsupported, Effect::invalidates,
     "a capture forbids synchronisation of events", outside},
    {Violation::query_other_event, "query-other-event", Scope::unsafe_call,
     Category::stream_capture_unsupported, Effect::invalidates,
     "a capture forbids queries of events", outside},
    {Violation::allocate_segment, "allocate-segment", Scope::unsafe_call,
     Category::stream_capture_unsupported, Effect::invalidates,
     "a capture forbids raw memory allocation", outside},
    {Violation::release_segment, "release-segment", Scope::unsafe_call,
     Category::stream_capture_unsupported, Effect::invalidates,
     "a capture forbids the release of raw memory", outside},
    {Violation::instantiate_graph, "instantiate-graph", Scope::unsafe_call,
     Category::stream_capture_unsupported, Effect::invalidates,
     "a capture forbids instantiating graphs", outside},
    {Violation::create_communicator, "create-communicator", Scope::unsafe_call,
     Category::stream_capture_unsupported, Effect::invalidates,
     "a capture forbids creating communicators, which allocates", outside},
    {Violation::launch_graph_into_capture, "launch-graph-into-capture", Scope::every_mode,
     Category::stream_capture_unsupported, Effect::invalidates,
     "the stream captures, an executable graph cannot be captured", end_first},
    {Violation::wait_outside_event, "wait-outside-event", Scope::every_mode,
     Category::stream_capture_isolation, Effect::invalidates,
     "the event was recorded by a stream outside this capture",
     "order the capture after that work by a wait before it begins"},
    {Violation::use_event_of_ended_capture, "use-event-of-ended-capture", Scope::every_mode,
     Category::invalid_value, Effect::invalidates,
     "the event was last recorded in a capture that ended or failed", "record the event again"},
    {Violation::use_legacy_stream, "use-legacy-stream", Scope::every_mode,
     Category::stream_capture_implicit, Effect::invalidates,
     "the legacy stream would wait for a blocking stream that captures",
     "use a stream, or capture on a non-blocking stream"},
    {Violation::legacy_waits_for_captured_event, "legacy-waits-for-captured-event",
     Scope::every_mode, Category::stream_capture_implicit, Effect::invalidates,
     "the legacy stream cannot join a capture", "wait on a stream"},
    {Violation::capture_legacy_stream, "capture-legacy-stream", Scope::every_mode,
     Category::stream_capture_unsupported, Effect::none, "the legacy stream cannot capture",
     "capture on a stream"},
    {Violation::merge_captures, "merge-captures", Scope::every_mode, Category::stream_capture_merge,
     Effect::invalidates, "the wait would join two separate captures",
     "end one before the other begins"},
    {Violation::end_unjoined, "end-unjoined", Scope::every_mode, Category::stream_capture_unjoined,
     Effect::ends, "work of a forked stream was not joined to the capture's first stream",
     "record an event on the forked stream and let the first stream wait for it"},
    {Violation::end_on_forked_stream, "end-on-forked-stream", Scope::every_mode,
     Category::stream_capture_unmatched, Effect::invalidates,
     "the capture did not begin on this stream", "end it on the stream it began on"},
    {Violation::end_without_capture, "end-without-capture", Scope::every_mode,
     Category::illegal_state, Effect::none, "the stream does not capture", "begin a capture first"},
    {Violation::end_on_other_thread, "end-on-other-thread", Scope::every_mode,
     Category::stream_capture_wrong_thread, Effect::ends,
     "a capture that is not relaxed must end on the thread that began it",
     "end it there, or begin it in relaxed mode"},
    {Violation::begin_twice, "begin-twice", Scope::every_mode, Category::illegal_state,
     Effect::none, "the stream captures already", end_first},
    {Violation::enqueue_after_invalidation, "enqueue-after-invalidation", Scope::every_mode,
     Category::stream_capture_invalidated, Effect::none,
     "an earlier error invalidated the stream's capture", "end the capture and begin anew"},
    {Violation::end_after_invalidation, "end-after-invalidation", Scope::every_mode,
     Category::stream_capture_invalidated, Effect::ends, "an earlier error invalidated the capture",
     "mend the first error and capture anew"},
}};

constexpr bool in_order() {
  for (std::size_t index = 0; index < rules.size(); ++index) {
    if (static_cast<std::size_t>(rules[index].violation) != index) return false;
  }
  return true;
}
static_assert(in_order(), "the rows stand in the order of CaptureViolation");

}  // namespace

std::span<const CaptureRule> capture_rules() {
  return rules;
}

const CaptureRule& capture_rule(CaptureViolation violation) {
  return rules.at(static_cast<std::size_t>(violation));
}

}  // namespace cgconform::workloads::reference
