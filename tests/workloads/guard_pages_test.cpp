#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "tests/workloads/training_legs.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/guarded_device.hpp"

namespace cgconform::workloads {
namespace {

std::unique_ptr<Device> guarded(BlockPlacement placement) {
  return with_guard_pages(create_reference_device({.arena_bytes = 256 << 20}), placement);
}

std::byte* begin_of(const Buffer& buffer) {
  return static_cast<std::byte*>(buffer.view().data);
}

std::byte* end_of(const Buffer& buffer) {
  return begin_of(buffer) + buffer.view().bytes();
}

void touch(std::byte* address) {
  *const_cast<volatile std::byte*>(address) = std::byte{1};
}

/// A buffer of so many bytes on a guarded device.
struct Scene {
  explicit Scene(BlockPlacement placement, std::int64_t bytes = 128) : device(guarded(placement)) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    stream = device->create_stream("main");
    allocator = std::make_unique<CachingAllocator>(device->segment_source());
    buffer = Buffer(*allocator, *stream, default_pool, DType::uint8, Shape{bytes}, "edge");
    stream->synchronize();
  }
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<CachingAllocator> allocator;
  Buffer buffer;
};

TEST(GuardPages, ABufferAtTheEndFaultsWhereItEnds) {
  Scene scene(BlockPlacement::at_end);
  std::memset(begin_of(scene.buffer), 1, 128);
  EXPECT_DEATH(touch(end_of(scene.buffer)), "");
}

TEST(GuardPages, ABufferAtTheStartFaultsBeforeItBegins) {
  Scene scene(BlockPlacement::at_start);
  std::memset(begin_of(scene.buffer), 1, 128);
  EXPECT_DEATH(touch(begin_of(scene.buffer) - 1), "");
}

TEST(GuardPages, CanariesCoverTheRestOfTheMapping) {
  for (const BlockPlacement placement : {BlockPlacement::at_end, BlockPlacement::at_start}) {
    // Not a whole number of the 16 bytes that buffers are aligned to.
    Scene scene(placement, 37);
    EXPECT_TRUE(scene.allocator->damaged_guards(*scene.stream).empty());
    touch(placement == BlockPlacement::at_end ? begin_of(scene.buffer) - 1000
                                              : end_of(scene.buffer) + 1000);
    const auto damaged = scene.allocator->damaged_guards(*scene.stream);
    ASSERT_EQ(damaged.size(), 1U);
    EXPECT_EQ(damaged.front().label, "edge");
    // The canaries are restored in stream order.
    scene.stream->synchronize();
    touch(end_of(scene.buffer));
    EXPECT_EQ(scene.allocator->damaged_guards(*scene.stream).size(), 1U)
        << "the slack of the alignment";
  }
}

TEST(GuardPages, EveryBufferHasAMappingOfItsOwnAndIsUsedAgain) {
  Scene scene(BlockPlacement::at_end);
  const Buffer second(*scene.allocator, *scene.stream, default_pool, DType::uint8, Shape{128},
                      "second");
  const std::byte* address = begin_of(scene.buffer);
  const std::int64_t reserved = scene.allocator->statistics(default_pool).reserved_bytes;
  scene.buffer.reset();
  const Buffer again(*scene.allocator, *scene.stream, default_pool, DType::uint8, Shape{128},
                     "again");
  EXPECT_EQ(begin_of(again), address);
  EXPECT_EQ(scene.allocator->statistics(default_pool).reserved_bytes, reserved);
}

TEST(GuardPages, DoNotChangeWhatALegComputes) {
  const matrix::Cell cell = testing::small_cell(matrix::CudaGraphImpl::local);
  const LegRequest graph{.kind = LegKind::graph};
  const auto bytes = [&](BlockPlacement placement) {
    const std::unique_ptr<Device> device = guarded(placement);
    const LegRecord record = run_leg(cell, graph, {.device = *device, .seed = 11});
    EXPECT_EQ(record.error, "");
    return testing::bytes_of(record, *device);
  };
  const testing::ObservedBytes packed = bytes(BlockPlacement::packed);
  EXPECT_EQ(testing::differences(packed, bytes(BlockPlacement::at_end)),
            std::vector<std::string>{});
  EXPECT_EQ(testing::differences(packed, bytes(BlockPlacement::at_start)),
            std::vector<std::string>{});
}

}  // namespace
}  // namespace cgconform::workloads
