#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "tests/workloads/test_ops.hpp"

namespace cgconform::workloads::test {
namespace {

TEST(ReferenceStream, RunsWorkInOrder) {
  DeviceFixture f;
  Buffer x = f.buffer(4);
  f.stream->launch(set(x.view(), 3.0F));
  f.stream->launch(twice(x.view()));
  f.stream->launch(add(x.view(), x.view()));
  EXPECT_EQ(values(*f.stream, x.view()), (std::vector<float>{12, 12, 12, 12}));
}

TEST(ReferenceStream, ReturnsFromLaunchBeforeTheWorkRuns) {
  DeviceFixture f;
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  f.stream->host_function([opened] { opened.wait(); }, "gate");
  Buffer x = f.buffer();
  f.stream->launch(set(x.view(), 1.0F));
  EXPECT_FALSE(f.stream->query());
  gate.set_value();
  f.stream->synchronize();
  EXPECT_TRUE(f.stream->query());
  EXPECT_EQ(value(*f.stream, x.view()), 1.0F);
}

TEST(ReferenceStream, RunsWithoutAnyHostWait) {
  DeviceFixture f;
  std::promise<void> ran;
  f.stream->host_function([&ran] { ran.set_value(); }, "signal");
  EXPECT_EQ(ran.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST(ReferenceStream, PageableUploadReadsTheHostAtTheCallAndPinnedWhenItRuns) {
  DeviceFixture f;
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  f.stream->host_function([opened] { opened.wait(); }, "gate");
  Buffer a = f.buffer();
  Buffer b = f.buffer();
  float pageable = 1.0F;
  float pinned = 1.0F;
  f.stream->upload(a.view(), &pageable, false, "a");
  f.stream->upload(b.view(), &pinned, true, "b");
  pageable = 2.0F;
  pinned = 2.0F;
  gate.set_value();
  EXPECT_EQ(value(*f.stream, a.view()), 1.0F);
  EXPECT_EQ(value(*f.stream, b.view()), 2.0F);
}

TEST(ReferenceStream, WaitsForAnEventOfAnotherStream) {
  DeviceFixture f;
  auto side = f.device->create_stream("side", StreamKind::non_blocking);
  auto event = f.device->create_event();
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  Buffer x = f.buffer();
  f.stream->launch(set(x.view(), 1.0F));
  f.stream->host_function([opened] { opened.wait(); }, "gate");
  f.stream->launch(set(x.view(), 5.0F));
  f.stream->record(*event);
  side->wait(*event);
  side->launch(twice(x.view()));
  EXPECT_FALSE(event->query());
  EXPECT_FALSE(side->query());
  gate.set_value();
  side->synchronize();
  EXPECT_TRUE(event->query());
  EXPECT_EQ(value(*side, x.view()), 10.0F);
}

TEST(ReferenceStream, LegacyStreamOrdersItselfWithBlockingStreams) {
  DeviceFixture f;
  auto blocking = f.device->create_stream("blocking", StreamKind::blocking);
  auto free = f.device->create_stream("free", StreamKind::non_blocking);
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  Buffer x = f.buffer();
  blocking->host_function([opened] { opened.wait(); }, "gate");
  blocking->launch(set(x.view(), 3.0F));
  f.device->legacy_stream().launch(twice(x.view()));
  blocking->launch(twice(x.view()));
  free->synchronize();  // not ordered with the legacy stream
  EXPECT_FALSE(f.device->legacy_stream().query());
  gate.set_value();
  blocking->synchronize();
  EXPECT_EQ(value(*blocking, x.view()), 12.0F);
}

void throwing_kernel(const OpCall&) {
  throw std::runtime_error("the kernel broke");
}
constexpr OpDeclaration throwing_op{"throwing", set_operands, throwing_kernel, nullptr};

TEST(ReferenceStream, ReportsTheFirstErrorAtTheNextSynchronisationAndIsUsableThen) {
  DeviceFixture f;
  auto side = f.device->create_stream("side", StreamKind::non_blocking);
  auto event = f.device->create_event();
  Buffer x = f.buffer();
  const TensorView view = x.view();
  f.stream->launch(set(view, 1.0F));
  f.stream->launch(make_call(throwing_op, {&view, 1}, {}, "layer 0 mlp"));
  f.stream->launch(set(view, 9.0F));
  f.stream->record(*event);
  side->wait(*event);
  side->launch(set(view, 8.0F));
  try {
    f.stream->synchronize();
    FAIL() << "no error was reported";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.category(), ErrorCategory::launch_failure);
    EXPECT_NE(std::string(error.what()).find("layer 0 mlp"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("the kernel broke"), std::string::npos);
  }
  EXPECT_THROW(side->synchronize(), DeviceError) << "the error spreads along the wait";
  EXPECT_EQ(value(*f.stream, view), 1.0F) << "work after the error is skipped";
  f.stream->launch(set(view, 4.0F));
  EXPECT_EQ(value(*f.stream, view), 4.0F);
}

TEST(ReferenceStream, RefusesDeviceCallsInsideHostFunctions) {
  DeviceFixture f;
  std::atomic<bool> refused{false};
  f.stream->host_function(
      [&] {
        try {
          f.stream->synchronize();
        } catch (const DeviceError& error) {
          refused = error.category() == ErrorCategory::not_permitted;
        }
      },
      "calls back");
  f.stream->synchronize();
  EXPECT_TRUE(refused);
}

TEST(ReferenceStream, ServesHostThreadsThatWaitAtTheSameTime) {
  DeviceFixture f;
  constexpr int threads = 4;
  constexpr int rounds = 200;
  std::vector<Buffer> buffers;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < threads; ++i) {
    buffers.push_back(f.buffer());
    streams.push_back(f.device->create_stream("worker", StreamKind::non_blocking));
  }
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      streams[i]->launch(set(buffers[i].view(), 0.0F));
      for (int round = 0; round < rounds; ++round) {
        Buffer& own = buffers[i];
        streams[i]->launch(set(own.view(), static_cast<float>(round)));
        streams[i]->launch(twice(own.view()));
        EXPECT_EQ(value(*streams[i], own.view()), 2.0F * static_cast<float>(round));
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST(ReferenceStream, CountsWhatItRanAndTellsTheObserver) {
  DeviceFixture f;
  std::vector<std::string> calls;
  f.device->set_call_observer([&](const CallRecord& record) { calls.emplace_back(record.call); });
  Buffer x = f.buffer();
  f.device->reset_counters();
  f.stream->launch(set(x.view(), 1.0F));
  f.stream->copy(x.view(), x.view(), "copy");
  f.stream->fill(x.view(), 0, "fill");
  f.stream->synchronize();
  EXPECT_EQ(f.device->counters().eager_launches, 3U);
  EXPECT_THROW(f.stream->end_capture(), DeviceError);
  EXPECT_EQ(f.device->counters().failed_calls, 1U);
  f.device->set_call_observer({});
  EXPECT_EQ(calls, (std::vector<std::string>{"segment allocate", "launch", "copy", "fill",
                                             "stream synchronize", "end capture"}));
}

TEST(ReferenceStream, TimesRecordedEvents) {
  DeviceFixture f;
  auto start = f.device->create_event(EventKind::timing);
  auto end = f.device->create_event(EventKind::timing);
  EXPECT_THROW(end->elapsed_since(*start), DeviceError);
  f.stream->record(*start);
  f.stream->record(*end);
  f.stream->synchronize();
  EXPECT_GE(end->elapsed_since(*start), 0.0);
}

TEST(ReferenceStream, RefusesToTimeByEventsThatOnlyOrder) {
  DeviceFixture f;
  auto start = f.device->create_event(EventKind::timing);
  auto end = f.device->create_event();
  f.stream->record(*start);
  f.stream->record(*end);
  f.stream->synchronize();
  try {
    end->elapsed_since(*start);
    FAIL() << "an event that only orders gave a time";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.category(), ErrorCategory::invalid_resource_handle);
  }
}

}  // namespace
}  // namespace cgconform::workloads::test
