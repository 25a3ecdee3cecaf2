#include "workloads/allocator/segment_kind.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/training_legs.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/guarded_device.hpp"

namespace cgconform::workloads {
namespace {

std::unique_ptr<Device> reference() {
  return create_reference_device({.arena_bytes = 256 << 20});
}

TEST(SegmentKind, TheFirstBufferOfAnExpandableSegmentSpansTwoChunks) {
  const auto device = reference();
  SegmentSource& source = segments_of(*device, SegmentKind::expandable);
  const auto stream = device->create_stream("main");
  {
    CachingAllocator allocator(source);
    const Buffer buffer(allocator, *stream, default_pool, DType::uint8, Shape{1024}, "first");
    EXPECT_TRUE(spans_chunks(source, buffer.view().data, buffer.view().bytes()));
    EXPECT_FALSE(spans_chunks(source, buffer.view().data, 1));
    EXPECT_TRUE(source.owns(buffer.view().data));
    stream->fill(buffer.view(), 1, "over the border");
    stream->synchronize();
  }
  EXPECT_EQ(source.bytes_in_use(), 0);
}

TEST(SegmentKind, PlainSegmentsHaveNoChunks) {
  const auto device = reference();
  SegmentSource& source = segments_of(*device, SegmentKind::plain);
  const Segment segment = source.allocate(1 << 20);
  EXPECT_FALSE(spans_chunks(source, segment.data, segment.bytes));
  source.release(segment);
}

TEST(SegmentKind, GuardPagesHoldForEveryKind) {
  const auto device = with_guard_pages(reference(), BlockPlacement::at_end);
  for (const SegmentKind kind :
       {SegmentKind::plain, SegmentKind::expandable, SegmentKind::stream_ordered}) {
    EXPECT_EQ(placement_of(segments_of(*device, kind)), BlockPlacement::at_end);
  }
}

TEST(SegmentKind, ACellOnExpandableSegmentsComputesWhatItDoesOnPlainOnes) {
  const auto device = reference();
  matrix::Cell cell = testing::small_cell(matrix::CudaGraphImpl::local);
  const LegRecord plain = run_leg(cell, {.kind = LegKind::graph}, {.device = *device, .seed = 3});
  cell.platform.expandable_segments = true;
  EXPECT_EQ(segment_kind_of(cell), SegmentKind::expandable);
  const LegRecord chunked = run_leg(cell, {.kind = LegKind::graph}, {.device = *device, .seed = 3});
  EXPECT_EQ(chunked.error, "");
  EXPECT_EQ(testing::differences(testing::bytes_of(plain, *device),
                                 testing::bytes_of(chunked, *device), false),
            std::vector<std::string>{});
}

}  // namespace
}  // namespace cgconform::workloads
