#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <future>
#include <memory>

#include <gtest/gtest.h>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"
#include "workloads/lifecycle/communicator_keeper.hpp"

namespace cgconform::workloads {
namespace {

class DeviceResources : public ::testing::Test {
 protected:
  std::unique_ptr<Graph> capture_fill() {
    stream_->begin_capture(CaptureMode::thread_local_mode);
    stream_->fill(tensor_.view(), 1, "fill");
    return stream_->end_capture();
  }
  std::unique_ptr<Graph> capture_reduction(Communicator& communicator) {
    stream_->begin_capture(CaptureMode::thread_local_mode);
    communicator.all_reduce(tensor_.view(), tensor_.view(), ReduceOp::sum, *stream_, "reduce");
    return stream_->end_capture();
  }

  std::unique_ptr<Device> device_ = create_reference_device({.arena_bytes = 64 << 20});
  std::unique_ptr<Stream> stream_ = device_->create_stream("main");
  CachingAllocator allocator_{device_->segment_source()};
  Buffer tensor_{allocator_, *stream_, default_pool, DType::int32, Shape{4}, "tensor"};
};

TEST_F(DeviceResources, CountGraphsAndExecutablesWhileTheyLive) {
  const ResourceUse before = device_->resource_use();
  auto graph = capture_fill();
  auto first = graph->instantiate();
  auto second = graph->instantiate();
  EXPECT_EQ(device_->resource_use().graphs, before.graphs + 1);
  EXPECT_EQ(device_->resource_use().executables, before.executables + 2);
  graph.reset();
  first.reset();
  EXPECT_EQ(device_->resource_use().graphs, before.graphs);
  EXPECT_EQ(device_->resource_use().executables, before.executables + 1);
  second.reset();
  EXPECT_EQ(device_->resource_use(), before);
}

TEST_F(DeviceResources, CountStreamsEventsAndSegments) {
  const ResourceUse before = device_->resource_use();
  {
    const auto stream = device_->create_stream("other");
    const auto event = device_->create_event();
    const Segment segment = device_->segment_source().allocate(1 << 20);
    const ResourceUse during = device_->resource_use();
    EXPECT_EQ(during.streams, before.streams + 1);
    EXPECT_EQ(during.events, before.events + 1);
    EXPECT_EQ(during.segment_bytes, before.segment_bytes + (1 << 20));
    device_->segment_source().release(segment);
  }
  EXPECT_EQ(device_->resource_use(), before);
}

TEST_F(DeviceResources, AUserObjectLivesAsLongAsTheLastThatRetainsIt) {
  std::atomic<int> released{0};
  auto object = device_->create_user_object([&] { ++released; });
  auto graph = capture_fill();
  graph->retain(object);
  auto exec = graph->instantiate();
  object.reset();
  graph.reset();
  EXPECT_EQ(released, 0) << "the executable retains it";
  EXPECT_EQ(device_->resource_use().user_objects, 1);
  exec.reset();
  EXPECT_EQ(released, 1);
  EXPECT_EQ(device_->resource_use().user_objects, 0);
}

TEST_F(DeviceResources, AnExecutableDoesNotRetainWhatItsGraphRetainsLater) {
  auto graph = capture_fill();
  const auto exec = graph->instantiate();
  graph->retain(device_->create_user_object([] {}));
  graph.reset();
  EXPECT_EQ(device_->resource_use().user_objects, 0);
}

TEST_F(DeviceResources, TheLibrarysOwnEndWaitsForTheLastGraph) {
  for (const CommunicatorEnd how :
       {CommunicatorEnd::destroy, CommunicatorEnd::finalize, CommunicatorEnd::abort}) {
    const auto communicator =
        device_->create_communicator({.name = "ends", .timeout = std::chrono::milliseconds(1)});
    auto graph = capture_reduction(*communicator);
    auto ended = std::async(std::launch::async, [&] { communicator->end(how); });
    // Far beyond the communicator's own deadline, which does not bound this call.
    EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout)
        << communicator_end_name(how);
    graph.reset();
    ended.get();
  }
}

TEST_F(DeviceResources, AKeeperPutsTheEndOffUntilNoGraphHoldsTheCommunicator) {
  CommunicatorKeeper keeper;
  auto communicator = device_->create_communicator({.name = "kept"});
  auto graph = capture_reduction(*communicator);
  EXPECT_FALSE(keeper.retire(std::move(communicator)));
  keeper.end_unused();
  EXPECT_EQ(keeper.deferred(), 1U);
  graph.reset();
  keeper.end_unused();
  EXPECT_EQ(keeper.deferred(), 0U);
  EXPECT_TRUE(keeper.retire(device_->create_communicator({.name = "unused"})));
}

TEST(HostUse, SeesHeapAndDescriptorsOfThisProcess) {
  const HostUse before = host_use();
  EXPECT_GT(before.resident_bytes, 0);
  EXPECT_GT(before.heap_bytes, 0);
  const auto block = std::make_unique<std::byte[]>(1 << 20);
  EXPECT_GE(host_use().heap_bytes - before.heap_bytes, 1 << 20);
  std::FILE* file = std::fopen("/dev/null", "r");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(host_use().file_descriptors, before.file_descriptors + 1);
  static_cast<void>(std::fclose(file));
}

}  // namespace
}  // namespace cgconform::workloads
