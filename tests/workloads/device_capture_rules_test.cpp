#include <functional>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "tests/workloads/test_ops.hpp"
#include "workloads/device/reference/capture_rules.hpp"

namespace cgconform::workloads::test {
namespace {

using reference::CaptureViolation;
using reference::ViolationEffect;
using reference::ViolationScope;

/// A device with a capture begun on `capturing`, and what the violations need.
struct Scene : DeviceFixture {
  explicit Scene(CaptureMode capture_mode, bool blocking)
      : mode(capture_mode),
        capturing(device->create_stream(
            "capturing", blocking ? StreamKind::blocking : StreamKind::non_blocking)),
        x(buffer()),
        segment(device->segment_source().allocate(4096)) {
    stream->record(*outside);
    stream->begin_capture(CaptureMode::relaxed);
    stream->record(*ended);
    stream->launch(set(x.view(), 2.0F));
    exec_graph = stream->end_capture();
    exec = exec_graph->instantiate();
    device->synchronize();
    capturing->begin_capture(mode);
    capturing->launch(set(x.view(), 1.0F));
  }

  /// Makes `other` a fork of the capture.
  void fork() {
    capturing->record(*captured);
    other->wait(*captured);
  }
  void invalidate() {
    try {
      capturing->synchronize();
    } catch (const DeviceError&) {
    }
  }

  CaptureMode mode;
  std::unique_ptr<Stream> capturing;
  std::unique_ptr<Stream> other = device->create_stream("other", StreamKind::non_blocking);
  std::unique_ptr<Event> outside = device->create_event(EventKind::timing);
  std::unique_ptr<Event> captured = device->create_event(EventKind::timing);
  std::unique_ptr<Event> ended = device->create_event();
  Buffer x;
  Segment segment;
  std::unique_ptr<Graph> exec_graph;
  std::unique_ptr<GraphExec> exec;
};

struct Provocation {
  CaptureViolation violation;
  std::function<void(Scene&)> call;
  bool needs_blocking_stream = false;
};

std::vector<Provocation> provocations() {
  using V = CaptureViolation;
  return {
      {V::synchronize_capturing_stream, [](Scene& s) { s.capturing->synchronize(); }},
      {V::query_capturing_stream, [](Scene& s) { s.capturing->query(); }},
      {V::synchronize_device, [](Scene& s) { s.device->synchronize(); }},
      {V::query_captured_event,
       [](Scene& s) {
         s.capturing->record(*s.captured);
         s.captured->query();
       }},
      {V::synchronize_captured_event,
       [](Scene& s) {
         s.capturing->record(*s.captured);
         s.captured->synchronize();
       }},
      {V::time_captured_event,
       [](Scene& s) {
         s.capturing->record(*s.captured);
         s.captured->elapsed_since(*s.outside);
       }},
      {V::synchronize_other_stream, [](Scene& s) { s.other->synchronize(); }},
      {V::query_other_stream, [](Scene& s) { s.other->query(); }},
      {V::synchronize_other_event, [](Scene& s) { s.outside->synchronize(); }},
      {V::query_other_event, [](Scene& s) { s.outside->query(); }},
      {V::allocate_segment, [](Scene& s) { s.device->segment_source().allocate(4096); }},
      {V::release_segment, [](Scene& s) { s.device->segment_source().release(s.segment); }},
      {V::instantiate_graph, [](Scene& s) { s.exec_graph->instantiate(); }},
      {V::create_communicator, [](Scene& s) { s.device->create_communicator({.name = "one"}); }},
      {V::launch_graph_into_capture, [](Scene& s) { s.exec->launch(*s.capturing); }},
      {V::wait_outside_event, [](Scene& s) { s.capturing->wait(*s.outside); }},
      {V::use_event_of_ended_capture, [](Scene& s) { s.capturing->wait(*s.ended); }},
      {V::use_legacy_stream,
       [](Scene& s) { s.device->legacy_stream().launch(set(s.x.view(), 1.0F)); }, true},
      {V::legacy_waits_for_captured_event,
       [](Scene& s) {
         s.capturing->record(*s.captured);
         s.device->legacy_stream().wait(*s.captured);
       }},
      {V::capture_legacy_stream,
       [](Scene& s) { s.device->legacy_stream().begin_capture(CaptureMode::relaxed); }},
      {V::merge_captures,
       [](Scene& s) {
         s.other->begin_capture(CaptureMode::relaxed);
         s.other->record(*s.captured);
         s.capturing->wait(*s.captured);
       }},
      {V::end_unjoined,
       [](Scene& s) {
         s.fork();
         s.other->launch(twice(s.x.view()));
         s.capturing->end_capture();
       }},
      {V::end_on_forked_stream,
       [](Scene& s) {
         s.fork();
         s.other->end_capture();
       }},
      {V::end_without_capture, [](Scene& s) { s.other->end_capture(); }},
      {V::end_on_other_thread,
       [](Scene& s) {
         std::exception_ptr failure;
         std::thread([&] {
           try {
             s.capturing->end_capture();
           } catch (...) {
             failure = std::current_exception();
           }
         }).join();
         if (failure) std::rethrow_exception(failure);
       }},
      {V::begin_twice, [](Scene& s) { s.capturing->begin_capture(s.mode); }},
      {V::enqueue_after_invalidation,
       [](Scene& s) {
         s.invalidate();
         s.capturing->launch(set(s.x.view(), 1.0F));
       }},
      {V::end_after_invalidation,
       [](Scene& s) {
         s.invalidate();
         s.capturing->end_capture();
       }},
  };
}

/// What the call ended with, on this thread or on another.
ErrorCategory outcome(Scene& scene, const Provocation& provocation, bool foreign_thread) {
  ErrorCategory category = ErrorCategory::success;
  const auto call = [&] {
    try {
      provocation.call(scene);
    } catch (const DeviceError& error) {
      category = error.category();
    }
  };
  if (foreign_thread) {
    std::thread(call).join();
  } else {
    call();
  }
  return category;
}

/// Ends whatever still captures, then proves that stream, memory and device work as before.
void expect_usable(Scene& scene) {
  for (Stream* stream : {scene.capturing.get(), scene.other.get()}) {
    try {
      if (stream->capture_status() != CaptureStatus::none) stream->end_capture();
    } catch (const DeviceError&) {
    }
    EXPECT_EQ(stream->capture_status(), CaptureStatus::none);
  }
  for (Stream* stream : {scene.capturing.get(), scene.other.get()}) {
    stream->launch(set(scene.x.view(), 3.0F));
    EXPECT_EQ(value(*stream, scene.x.view()), 3.0F);
  }
  scene.device->synchronize();
  scene.capturing->begin_capture(scene.mode);
  scene.capturing->launch(set(scene.x.view(), 4.0F));
  const auto exec = scene.capturing->end_capture()->instantiate();
  exec->launch(*scene.capturing);
  EXPECT_EQ(value(*scene.capturing, scene.x.view()), 4.0F);
}

constexpr std::array<CaptureMode, 3> modes{CaptureMode::global, CaptureMode::thread_local_mode,
                                           CaptureMode::relaxed};

TEST(CaptureRuleTable, EachRowIsProvokedOnceAndIdsAreUnique) {
  std::set<CaptureViolation> provoked;
  for (const Provocation& provocation : provocations()) {
    EXPECT_TRUE(provoked.insert(provocation.violation).second);
  }
  std::set<std::string_view> ids;
  for (const auto& rule : reference::capture_rules()) ids.insert(rule.id);
  EXPECT_EQ(provoked.size(), reference::capture_rules().size());
  EXPECT_EQ(ids.size(), reference::capture_rules().size());
}

TEST(CaptureRuleTable, EachViolationFailsWithItsCategoryAndEffectInEveryMode) {
  for (const Provocation& provocation : provocations()) {
    const auto& rule = reference::capture_rule(provocation.violation);
    for (CaptureMode mode : modes) {
      SCOPED_TRACE(testing::Message() << rule.id << " in mode " << static_cast<int>(mode));
      const bool permitted = mode == CaptureMode::relaxed &&
                             (rule.scope == ViolationScope::unsafe_call ||
                              provocation.violation == CaptureViolation::end_on_other_thread);
      Scene scene(mode, provocation.needs_blocking_stream);
      const ErrorCategory category = outcome(scene, provocation, false);
      if (permitted) {
        EXPECT_EQ(category, ErrorCategory::success);
      } else {
        EXPECT_EQ(category, rule.category);
        const bool was_invalid =
            provocation.violation == CaptureViolation::enqueue_after_invalidation;
        const CaptureStatus expected = rule.effect == ViolationEffect::ends ? CaptureStatus::none
                                       : rule.effect == ViolationEffect::invalidates || was_invalid
                                           ? CaptureStatus::invalidated
                                           : CaptureStatus::active;
        EXPECT_EQ(scene.capturing->capture_status(), expected);
      }
      expect_usable(scene);
    }
  }
}

TEST(CaptureRuleTable, UnsafeCallsOfAnotherThreadAreRefusedByGlobalCapturesOnly) {
  for (const Provocation& provocation : provocations()) {
    const auto& rule = reference::capture_rule(provocation.violation);
    if (rule.scope != ViolationScope::unsafe_call) continue;
    for (CaptureMode mode : modes) {
      SCOPED_TRACE(testing::Message() << rule.id << " in mode " << static_cast<int>(mode));
      Scene scene(mode, false);
      const ErrorCategory category = outcome(scene, provocation, true);
      const bool refused = mode == CaptureMode::global;
      EXPECT_EQ(category, refused ? rule.category : ErrorCategory::success);
      EXPECT_EQ(scene.capturing->capture_status(),
                refused ? CaptureStatus::invalidated : CaptureStatus::active);
      expect_usable(scene);
    }
  }
}

TEST(CaptureRuleTable, ARelaxedExchangePermitsAllocationInCapture) {
  for (CaptureMode mode : modes) {
    Scene scene(mode, false);
    SegmentSource& source = scene.device->segment_source();
    {
      const RelaxedCaptureScope relaxed(source);
      EXPECT_NO_THROW(source.allocate(4096));
    }
    EXPECT_EQ(scene.capturing->capture_status(), CaptureStatus::active);
    EXPECT_NO_THROW(scene.capturing->end_capture());
  }
}

TEST(CaptureRuleTable, OnlyTheCapturesThatForbidACallAreInvalidated) {
  Scene scene(CaptureMode::relaxed, false);
  scene.other->begin_capture(CaptureMode::global);
  EXPECT_THROW(scene.device->segment_source().allocate(4096), DeviceError);
  EXPECT_EQ(scene.capturing->capture_status(), CaptureStatus::active);
  EXPECT_EQ(scene.other->capture_status(), CaptureStatus::invalidated);
  expect_usable(scene);
}

TEST(CaptureRuleTable, HealthyCallsBesideACaptureArePermitted) {
  for (CaptureMode mode : modes) {
    Scene scene(mode, false);
    const auto never = scene.device->create_event();
    EXPECT_NO_THROW(scene.capturing->wait(*never)) << "nothing was recorded: nothing to wait for";
    EXPECT_NO_THROW(scene.other->launch(set(scene.x.view(), 1.0F)));
    EXPECT_NO_THROW(scene.exec->launch(*scene.other));
    EXPECT_NO_THROW(scene.device->legacy_stream().launch(set(scene.x.view(), 1.0F)));
    EXPECT_NO_THROW(scene.outside->elapsed_since(*scene.outside));
    EXPECT_NO_THROW(scene.capturing->host_function([] {}, "host"));
    scene.fork();
    EXPECT_EQ(scene.other->capture_status(), CaptureStatus::active);
    EXPECT_EQ(scene.capturing->end_capture()->nodes().size(), 2U)
        << "a fork without work needs no join";
    EXPECT_EQ(scene.other->capture_status(), CaptureStatus::none);
    expect_usable(scene);
  }
}

TEST(CaptureRuleTable, WorkOnAForkAfterItsJoinIsUnjoined) {
  Scene scene(CaptureMode::global, false);
  scene.fork();
  scene.other->launch(twice(scene.x.view()));
  scene.other->record(*scene.captured);
  scene.capturing->wait(*scene.captured);
  scene.other->launch(twice(scene.x.view()));
  try {
    scene.capturing->end_capture();
    FAIL() << "the capture ended";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.category(), ErrorCategory::stream_capture_unjoined);
  }
  expect_usable(scene);
}

TEST(CaptureRuleTable, DestroyingTheCapturingStreamDropsTheCapture) {
  Scene scene(CaptureMode::global, false);
  scene.fork();
  scene.capturing.reset();
  EXPECT_EQ(scene.other->capture_status(), CaptureStatus::none);
  EXPECT_NO_THROW(scene.device->synchronize());
}

TEST(CaptureRuleTable, AFailedCaptureRunsNothingAndKeepsNoReferences) {
  Scene scene(CaptureMode::global, false);
  auto communicator = [&] {
    const RelaxedCaptureScope relaxed(scene.device->segment_source());
    return scene.device->create_communicator({.name = "one"});
  }();
  auto token = std::make_shared<int>(0);
  scene.capturing->host_function([token] { ++*token; }, "host");
  communicator->all_reduce(scene.x.view(), scene.x.view(), ReduceOp::sum, *scene.capturing, "sum");
  scene.invalidate();
  EXPECT_THROW(scene.capturing->end_capture(), DeviceError);
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(*token, 0);
  EXPECT_EQ(communicator->live_graph_references(), 0);
  expect_usable(scene);
}

}  // namespace
}  // namespace cgconform::workloads::test
