#include "suites/growth.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgconform::suites {
namespace {

using testing::HasSubstr;
using workloads::MemorySample;

TEST(SteadyGrowth, IsTheSlopeOfALine) {
  EXPECT_DOUBLE_EQ(steady_growth(std::vector{3.0, 5.0, 7.0, 9.0}), 2.0);
}

TEST(SteadyGrowth, IsNoneForOneStepWhereverItComes) {
  for (std::size_t step = 1; step < 6; ++step) {
    std::vector<double> samples(6, 0.0);
    for (std::size_t i = step; i < samples.size(); ++i) samples[i] = 1000.0;
    EXPECT_DOUBLE_EQ(steady_growth(samples), 0.0) << "step before sample " << step;
  }
}

TEST(SteadyGrowth, SeesGrowthInEveryOtherSample) {
  EXPECT_GT(steady_growth(std::vector{0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0}), 0.0);
}

TEST(SteadyGrowth, IsNotPositiveForNoiseAroundALevel) {
  EXPECT_LE(steady_growth(std::vector{5.0, 7.0, 4.0, 6.0, 5.0, 7.0, 4.0}), 0.0);
}

TEST(SteadyGrowth, NeedsThreeSamples) {
  EXPECT_DOUBLE_EQ(steady_growth(std::vector{0.0, 100.0}), 0.0);
}

class FindGrowthTest : public testing::Test {
 protected:
  /// Six cycles; `change` alters the sample of cycle number i.
  template <typename Change>
  std::optional<std::string> after(Change&& change) {
    std::vector<MemorySample> samples(6, start_);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      change(samples[i], static_cast<std::int64_t>(i));
    }
    return find_growth(start_, samples, 2);
  }

  MemorySample start_{.taken = true, .live_blocks = 5, .active_bytes = 500};
};

TEST_F(FindGrowthTest, FindsNothingWhereAllStaysFlat) {
  EXPECT_FALSE(after([](MemorySample&, std::int64_t) {}));
}

TEST_F(FindGrowthTest, AllowsADriverMoreOfTheHeap) {
  const auto grown_by = [this](std::int64_t bytes) {
    return after(
        [&](MemorySample& sample, std::int64_t cycle) { sample.host.heap_bytes += cycle * bytes; });
  };
  EXPECT_TRUE(grown_by(30'000));
  start_.by_driver = true;
  EXPECT_FALSE(grown_by(30'000));
  EXPECT_TRUE(grown_by(300'000));
}

TEST_F(FindGrowthTest, LetsTheFirstCyclesRaiseWhatTheyLike) {
  EXPECT_FALSE(after([](MemorySample& sample, std::int64_t cycle) {
    sample.live_blocks += std::min<std::int64_t>(cycle, 2) * 100;
    sample.host.heap_bytes += std::min<std::int64_t>(cycle, 2) * 100000;
  }));
}

TEST_F(FindGrowthTest, NamesBlocksThatGrowWithEachCycle) {
  const auto growth =
      after([](MemorySample& sample, std::int64_t cycle) { sample.live_blocks += cycle; });
  ASSERT_TRUE(growth);
  EXPECT_THAT(*growth, HasSubstr("blocks grow by 1 a cycle"));
}

TEST_F(FindGrowthTest, SeesSixteenHostRecordsOfFourHundredBytesACycle) {
  const auto growth = after([](MemorySample& sample, std::int64_t cycle) {
    sample.host.heap_bytes += std::int64_t{16} * 400 * cycle;
  });
  ASSERT_TRUE(growth);
  EXPECT_THAT(*growth, HasSubstr("heap"));
}

TEST_F(FindGrowthTest, SeesAnOldSetThatOutlivesItsCycleThoughNothingGrows) {
  const auto growth = after([](MemorySample& sample, std::int64_t cycle) {
    if (cycle < 5) sample.device.graphs += 4;
  });
  ASSERT_TRUE(growth);
  EXPECT_THAT(*growth, HasSubstr("graphs: 0 before the first cycle and 4 after cycle 0"));
}

TEST_F(FindGrowthTest, SeesEveryQuantityOfTheTable) {
  using Raise = void (*)(MemorySample&, std::int64_t);
  const std::vector<Raise> raises{
      [](MemorySample& s, std::int64_t n) { s.device.graphs += n; },
      [](MemorySample& s, std::int64_t n) { s.device.executables += n; },
      [](MemorySample& s, std::int64_t n) { s.device.user_objects += n; },
      [](MemorySample& s, std::int64_t n) { s.live_blocks += n; },
      [](MemorySample& s, std::int64_t n) { s.active_bytes += n; },
      [](MemorySample& s, std::int64_t n) { s.reserved_bytes += n; },
      [](MemorySample& s, std::int64_t n) { s.device.segment_bytes += n; },
      [](MemorySample& s, std::int64_t n) { s.device.graph_bytes += n; },
      [](MemorySample& s, std::int64_t n) { s.used_bytes += n << 20; },
      [](MemorySample& s, std::int64_t n) { s.device.streams += n; },
      [](MemorySample& s, std::int64_t n) { s.device.events += n; },
      [](MemorySample& s, std::int64_t n) { s.host.file_descriptors += n; },
      [](MemorySample& s, std::int64_t n) { s.host.pinned_bytes += n; },
      [](MemorySample& s, std::int64_t n) { s.host.heap_bytes += std::int64_t{16} * 400 * n; },
      [](MemorySample& s, std::int64_t n) { s.host.resident_bytes += n << 20; },
  };
  ASSERT_EQ(raises.size(), memory_quantities().size());
  for (std::size_t i = 0; i < raises.size(); ++i) {
    const auto growth =
        after([&](MemorySample& sample, std::int64_t cycle) { raises[i](sample, cycle); });
    ASSERT_TRUE(growth) << memory_quantities()[i].name;
    EXPECT_THAT(*growth, HasSubstr(std::string(memory_quantities()[i].name)));
  }
}

}  // namespace
}  // namespace cgconform::suites
