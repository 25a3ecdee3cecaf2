#include "suites/step_statistics.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace cgconform::suites {
namespace {

using workloads::LegKind;
using workloads::LegRecord;

TEST(MedianInterval, IsTheMiddleAndTheExtremesOfFewSamples) {
  const MedianInterval interval = median_interval({5.0, 1.0, 3.0});
  EXPECT_EQ(interval.median, 3.0);
  EXPECT_EQ(interval.low, 1.0);
  EXPECT_EQ(interval.high, 5.0);
  EXPECT_DOUBLE_EQ(interval.confidence, 0.75);
  EXPECT_EQ(interval.samples, 3U);
}

TEST(MedianInterval, LeavesOutliersAsideWhereThereAreEnoughSamples) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  values.back() = 1000.0;
  const MedianInterval interval = median_interval(values);
  EXPECT_EQ(interval.median, 10.5);
  // The sixth smallest and largest of 20 hold the median with a confidence of 0.9586.
  EXPECT_EQ(interval.low, 6.0);
  EXPECT_EQ(interval.high, 15.0);
  EXPECT_NEAR(interval.confidence, 0.9586, 1e-4);
}

TEST(MedianInterval, ClaimsNothingWithoutSamplesOrOfOne) {
  EXPECT_EQ(median_interval({}).samples, 0U);
  EXPECT_EQ(median_interval({2.0}).median, 2.0);
  EXPECT_EQ(median_interval({2.0}).confidence, 0.0);
}

TEST(SteadySteps, LeaveOutTheFirstEagerStepAndThoseThatCapture) {
  LegRecord record;
  record.steps = {{.step = 0},
                  {.step = 1, .replayed = true, .captured = true},
                  {.step = 2, .replayed = true},
                  {.step = 3, .replayed = true}};
  const auto eager = steady_steps({.timed = true}, record);
  ASSERT_EQ(eager.size(), 3U);
  EXPECT_EQ(eager.front().step, 1);
  const auto replayed = steady_steps({.kind = LegKind::graph, .timed = true}, record);
  ASSERT_EQ(replayed.size(), 2U);
  EXPECT_EQ(replayed.front().step, 2);
}

}  // namespace
}  // namespace cgconform::suites
