#include <cstring>
#include <future>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "tests/workloads/test_ops.hpp"
#include "workloads/allocator/source_adaptors.hpp"

namespace cgconform::workloads::test {
namespace {

TEST(CachingAllocator, ReusesAFreedBlockOnItsStreamAtOnceUnderANewGeneration) {
  DeviceFixture f;
  const Block first = f.allocator.allocate(100, *f.stream, default_pool, "first");
  f.allocator.free(first, *f.stream);
  EXPECT_EQ(f.allocator.look_up(first.data).state, AddressState::freed);
  EXPECT_EQ(f.allocator.look_up(first.data).generation, first.generation);
  const Block second = f.allocator.allocate(100, *f.stream, default_pool, "second");
  EXPECT_EQ(second.data, first.data);
  EXPECT_NE(second.generation, first.generation);
  const AddressRecord record = f.allocator.look_up(second.data + 99);
  EXPECT_EQ(record.state, AddressState::live);
  EXPECT_EQ(record.generation, second.generation);
  EXPECT_EQ(record.label, "second");
  EXPECT_EQ(f.allocator.look_up(second.data + 100).state, AddressState::guard);
  EXPECT_EQ(f.allocator.look_up(second.data - 1).state, AddressState::guard);
  EXPECT_EQ(f.allocator.look_up(&f).state, AddressState::unknown);
}

TEST(CachingAllocator, HandsABlockToAnotherStreamOnlyAfterTheFirstPassedIt) {
  DeviceFixture f;
  auto side = f.device->create_stream("side", StreamKind::non_blocking);
  // The allocator watches streams once it knows of two.
  f.allocator.free(f.allocator.allocate(64, *side, default_pool, "side"), *side);
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  const Block block = f.allocator.allocate(1000, *f.stream, default_pool, "block");
  f.stream->host_function([opened] { opened.wait(); }, "gate");
  f.allocator.free(block, *f.stream);
  const Block early = f.allocator.allocate(1000, *side, default_pool, "early");
  EXPECT_NE(early.data, block.data);
  gate.set_value();
  f.stream->synchronize();
  EXPECT_EQ(f.allocator.allocate(1000, *side, default_pool, "late").data, block.data);
}

TEST(CachingAllocator, KeepsPoolsApartAndGrowsThemInCapture) {
  for (CaptureMode mode : {CaptureMode::global, CaptureMode::thread_local_mode}) {
    DeviceFixture f;
    const PoolId pool = f.allocator.create_pool("graph");
    f.stream->begin_capture(mode);
    const Block a = f.allocator.allocate(256, *f.stream, pool, "a");
    f.allocator.free(a, *f.stream);
    const Block b = f.allocator.allocate(256, *f.stream, pool, "b");
    EXPECT_EQ(a.data, b.data) << "reused in capture order";
    f.allocator.free(b, *f.stream);
    EXPECT_NO_THROW(f.stream->end_capture());
    const Block eager = f.allocator.allocate(256, *f.stream, default_pool, "eager");
    EXPECT_NE(eager.data, a.data);
    EXPECT_EQ(f.allocator.look_up(a.data).pool, pool);
    EXPECT_EQ(f.device->counters().captured_nodes, 0U) << "the allocator's fills are not captured";
    f.allocator.free(eager, *f.stream);
    const auto in_use = f.device->segment_source().bytes_in_use();
    f.allocator.destroy_pool(pool);
    EXPECT_LT(f.device->segment_source().bytes_in_use(), in_use);
    EXPECT_EQ(f.allocator.look_up(a.data).state, AddressState::freed) << "the ledger keeps it";
    EXPECT_EQ(f.allocator.look_up(a.data).generation, b.generation);
  }
}

TEST(CachingAllocator, BlocksFreedInCaptureDoNotGoToOtherStreams) {
  DeviceFixture f;
  auto side = f.device->create_stream("side", StreamKind::non_blocking);
  f.allocator.free(f.allocator.allocate(8, *side, default_pool, "side"), *side);
  const Block block = f.allocator.allocate(512, *f.stream, default_pool, "block");
  f.stream->begin_capture(CaptureMode::relaxed);
  f.allocator.free(block, *f.stream);
  f.stream->end_capture();
  f.device->synchronize();
  EXPECT_NE(f.allocator.allocate(512, *side, default_pool, "other").data, block.data);
}

TEST(CachingAllocator, RefusesToDestroyAPoolInUseAndToFreeTwice) {
  DeviceFixture f;
  const PoolId pool = f.allocator.create_pool("graph");
  const Block block = f.allocator.allocate(4, *f.stream, pool, "held");
  EXPECT_THROW(f.allocator.destroy_pool(pool), InternalError);
  f.allocator.free(block, *f.stream);
  EXPECT_THROW(f.allocator.free(block, *f.stream), InternalError);
  EXPECT_NO_THROW(f.allocator.destroy_pool(pool));
  EXPECT_THROW(f.allocator.statistics(pool), InternalError);
}

TEST(CachingAllocator, FindsDamagedGuardsAndOnlyThose) {
  DeviceFixture f;
  Buffer good = f.buffer(10);
  Buffer bad = f.buffer(10);
  f.stream->launch(set(good.view(), 1.0F));
  EXPECT_TRUE(f.allocator.damaged_guards(*f.stream).empty());
  TensorView beyond = bad.view();
  beyond.shape = Shape{11};
  f.stream->launch(set(beyond, 1.0F));
  const auto damaged = f.allocator.damaged_guards(*f.stream);
  ASSERT_EQ(damaged.size(), 1U);
  EXPECT_EQ(damaged[0].generation, bad.block().generation);
  EXPECT_TRUE(f.allocator.damaged_guards(*f.stream).empty()) << "reported once, then restored";
}

TEST(CachingAllocator, PoisonFillsFreeBlocksInStreamOrderAndLeavesLiveOnes) {
  DeviceFixture f;
  Buffer live = f.buffer(4);
  f.stream->launch(set(live.view(), 1.0F));
  Buffer gone = f.buffer(4);
  f.stream->launch(set(gone.view(), 2.0F));
  const TensorView freed = gone.view();
  gone.reset();
  f.stream->synchronize();
  f.device->reset_counters();
  f.allocator.poison_free_blocks(default_pool, 0xFF, *f.stream);
  EXPECT_EQ(f.device->counters().eager_launches, 0U);
  EXPECT_EQ(values(*f.stream, live.view()), (std::vector<float>{1, 1, 1, 1}));
  std::array<std::uint8_t, 16> bytes{};
  f.stream->download(bytes.data(), freed);
  for (std::uint8_t byte : bytes) EXPECT_EQ(byte, 0xFF);
  EXPECT_TRUE(f.allocator.damaged_guards(*f.stream).empty());
}

TEST(CachingAllocator, CountsBytesAndPeaksAndTrimsUnusedSegments) {
  DeviceFixture f;
  SegmentSource& source = f.device->segment_source();
  {
    Buffer a = f.buffer(1 << 20);
    Buffer b = f.buffer(1 << 20);
    const PoolStatistics held = f.allocator.statistics(default_pool);
    EXPECT_EQ(held.active_bytes, 2 * 4 * (1 << 20));
    EXPECT_EQ(held.live_blocks, 2);
    EXPECT_EQ(held.reserved_bytes, source.bytes_in_use());
    EXPECT_EQ(f.allocator.live_blocks().size(), 2U);
  }
  const PoolStatistics freed = f.allocator.statistics(default_pool);
  EXPECT_EQ(freed.active_bytes, 0);
  EXPECT_EQ(freed.live_blocks, 0);
  EXPECT_EQ(freed.peak_active_bytes, 2 * 4 * (1 << 20));
  EXPECT_GT(freed.reserved_bytes, 0);
  f.allocator.trim(default_pool);
  EXPECT_EQ(f.allocator.statistics(default_pool).reserved_bytes, 0);
  EXPECT_EQ(source.bytes_in_use(), 0);
}

TEST(CachingAllocator, DoesNotGrowOverManySizesUsedOneAfterTheOther) {
  DeviceFixture f;
  for (std::int64_t size = 1; size < 4000; ++size) f.buffer(size);
  EXPECT_LE(f.allocator.statistics(default_pool).reserved_bytes, std::int64_t{8} << 20);
}

TEST(CachingAllocator, FreesItsCacheBeforeItReportsExhaustion) {
  DeviceFixture f;
  LimitingSource limited(f.device->segment_source(), std::int64_t{8} << 20);
  CachingAllocator allocator(limited);
  constexpr std::int64_t six = std::int64_t{6} << 20;
  allocator.free(allocator.allocate(six, *f.stream, default_pool, "cached"), *f.stream);
  const Block block = allocator.allocate(six + 4096, *f.stream, default_pool, "bigger");
  try {
    allocator.allocate(six, *f.stream, default_pool, "too much");
    FAIL() << "the limit did not hold";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.category(), ErrorCategory::memory_allocation);
    EXPECT_NE(std::string(error.what()).find("too much"), std::string::npos);
  }
  allocator.free(block, *f.stream);
}

TEST(SourceAdaptors, FailChosenCallsAndCountAll) {
  DeviceFixture f;
  FailingSource failing(f.device->segment_source(),
                        [](std::uint64_t call, std::int64_t) { return call == 1; });
  StatisticsSource counted(failing);
  const Segment a = counted.allocate(4096);
  EXPECT_THROW(counted.allocate(4096), DeviceError);
  const Segment b = counted.allocate(4096);
  counted.release(a);
  EXPECT_EQ(counted.statistics().allocations, 2U);
  EXPECT_EQ(counted.statistics().failures, 1U);
  EXPECT_EQ(counted.statistics().releases, 1U);
  EXPECT_EQ(counted.statistics().bytes, b.bytes);
  EXPECT_EQ(counted.statistics().peak_bytes, a.bytes + b.bytes);
}

// Random sequences over pools and streams: live blocks never overlap, keep what was written to
// them, and carry generations that were never seen before.
TEST(CachingAllocator, LiveBlocksNeverOverlapInRandomSequences) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    DeviceFixture f;
    auto side = f.device->create_stream("side", StreamKind::non_blocking);
    const PoolId pool = f.allocator.create_pool("graph");
    std::mt19937_64 random(seed);
    struct Held {
      Block block;
      Stream* stream;
      std::uint8_t mark;
    };
    std::vector<Held> held;
    std::set<std::uint64_t> generations;
    const auto view = [](const Block& block) {
      return TensorView{block.data, DType::uint8, Shape{block.bytes}};
    };
    for (int round = 0; round < 150; ++round) {
      if (held.empty() || random() % 5 < 3) {
        Stream& stream = random() % 2 == 0 ? *f.stream : *side;
        constexpr std::array<std::int64_t, 6> sizes{1, 16, 300, 4096, 70000, 2200000};
        const Block block = f.allocator.allocate(sizes.at(random() % sizes.size()), stream,
                                                 random() % 2 == 0 ? pool : default_pool, "random");
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % 256, 0U);
        EXPECT_TRUE(generations.insert(block.generation).second);
        const auto mark = static_cast<std::uint8_t>(random() % 200);
        stream.fill(view(block), mark, "mark");
        held.push_back({block, &stream, mark});
      } else {
        std::swap(held[random() % held.size()], held.back());
        const Held last = held.back();
        held.pop_back();
        const auto size = static_cast<std::size_t>(last.block.bytes);
        std::vector<std::uint8_t> bytes(size);
        last.stream->download(bytes.data(), view(last.block));
        EXPECT_EQ(
            std::memcmp(bytes.data(), std::vector<std::uint8_t>(size, last.mark).data(), size), 0);
        f.allocator.free(last.block, *last.stream);
        if (random() % 8 == 0) f.allocator.trim(default_pool);
        if (random() % 8 == 0) {
          // Poison is ordered on one stream; the other one waits for it here.
          f.device->synchronize();
          f.allocator.poison_free_blocks(pool, 0xEE, *last.stream);
          f.device->synchronize();
        }
      }
      std::map<std::byte*, std::byte*> ranges;
      for (const Held& each : held) ranges[each.block.data] = each.block.data + each.block.bytes;
      ASSERT_EQ(ranges.size(), held.size());
      const std::byte* last_end = nullptr;
      for (const auto& [begin, end] : ranges) {
        ASSERT_LE(last_end, begin);
        last_end = end;
      }
    }
    f.device->synchronize();
    EXPECT_TRUE(f.allocator.damaged_guards(*f.stream).empty());
    for (const Held& each : held) f.allocator.free(each.block, *each.stream);
  }
}

TEST(Buffer, MovesItsBlockAndFreesItOnce) {
  DeviceFixture f;
  Buffer a = f.buffer(8);
  const Block block = a.block();
  Buffer b = std::move(a);
  EXPECT_FALSE(a.valid());  // NOLINT(bugprone-use-after-move): what a move leaves is the point
  EXPECT_EQ(b.block().generation, block.generation);
  b = f.buffer(8);
  EXPECT_EQ(f.allocator.look_up(block.data).state, AddressState::freed);
  b.reset();
  b.reset();
  EXPECT_EQ(f.allocator.statistics(default_pool).live_blocks, 0);
}

}  // namespace
}  // namespace cgconform::workloads::test
