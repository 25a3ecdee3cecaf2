#include <csignal>
#include <future>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/workloads/test_ops.hpp"

namespace cgconform::workloads::test {
namespace {

/// The range that the handler compares with; set before the fault in the child.
AddressRange* handler_range = nullptr;

constexpr int fault_in_arena = 42;
constexpr int fault_elsewhere = 43;

void on_fault(int, siginfo_t* info, void*) {
  _exit(handler_range->contains(info->si_addr) ? fault_in_arena : fault_elsewhere);
}

/// Exit code of a child that runs `body` with a handler for wild accesses.
template <typename Body>
int run_in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The device is made in the child: its threads do not survive a fork.
TEST(ReferenceArena, UnmappedAndReleasedMemoryFaultsInsideTheArena) {
  for (const bool release : {false, true}) {
    const int code = run_in_child([release] {
      const auto device = create_reference_device({.arena_bytes = 1 << 20});
      SegmentSource& source = device->segment_source();
      AddressRange range = source.range();
      handler_range = &range;
      const Segment segment = source.allocate(4096);
      *segment.data = std::byte{1};
      if (release) {
        source.release(segment);
      } else {
        source.unmap(segment);
      }
      auto stream = device->create_stream("stream");
      stream->launch(set({segment.data, DType::fp32, Shape{1}}, 1.0F));
      stream->synchronize();
    });
    EXPECT_EQ(code, fault_in_arena);
  }
}

TEST(ReferenceArena, TellsOtherFaultsFromThoseOfDeviceMemory) {
  EXPECT_EQ(run_in_child([] {
              const auto device = create_reference_device({.arena_bytes = 1 << 20});
              AddressRange range = device->segment_source().range();
              handler_range = &range;
              auto stream = device->create_stream("stream");
              // NOLINTNEXTLINE(performance-no-int-to-ptr)
              auto* elsewhere = reinterpret_cast<float*>(std::uintptr_t{64});
              stream->launch(set({elsewhere, DType::fp32, Shape{1}}, 1.0F));
              stream->synchronize();
            }),
            fault_elsewhere);
}

TEST(ReferenceArena, HandsReleasedAddressesOutAgainFilledWithZeros) {
  const auto device = create_reference_device({.arena_bytes = 1 << 16});
  SegmentSource& source = device->segment_source();
  const Segment first = source.allocate(1 << 16);
  *first.data = std::byte{7};
  EXPECT_THROW(source.allocate(1), DeviceError);
  source.release(first);
  EXPECT_THROW(source.release(first), DeviceError);
  const Segment low = source.allocate(1 << 14);
  const Segment high = source.allocate(1 << 14);
  EXPECT_EQ(low.data, first.data);
  EXPECT_EQ(*low.data, std::byte{0});
  source.unmap(high);
  EXPECT_EQ(source.bytes_in_use(), 1 << 15) << "an unmapped segment keeps its addresses";
  source.release(high);
  source.release(low);
  EXPECT_EQ(source.bytes_in_use(), 0);
  EXPECT_EQ(source.allocate(1 << 16).data, first.data) << "neighbours were joined";
}

TEST(ReferenceArena, ReleaseWaitsForTheWorkOfDestroyedStreams) {
  DeviceFixture f;
  SegmentSource& source = f.device->segment_source();
  const Segment segment = source.allocate(4096);
  auto stream = f.device->create_stream("gone");
  std::promise<void> gate;
  stream->host_function([&gate] { gate.get_future().wait(); }, "gate");
  stream->launch(set({segment.data, DType::fp32, Shape{1024}}, 1.0F));
  stream.reset();
  std::thread opener([&gate] { gate.set_value(); });
  source.release(segment);
  opener.join();
  EXPECT_NO_THROW(f.device->synchronize());
}

TEST(ReferenceArena, ReleaseWaitsForQueuedWork) {
  DeviceFixture f;
  Buffer x = f.buffer();
  for (int count = 0; count < 1000; ++count) f.stream->launch(twice(x.view()));
  x.reset();
  f.allocator.trim(default_pool);
  f.stream->synchronize();
  EXPECT_EQ(f.device->segment_source().bytes_in_use(), 0);
}

}  // namespace
}  // namespace cgconform::workloads::test
