#include "workloads/lifecycle/early_return.hpp"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/training_legs.hpp"
#include "workloads/device/memory_store.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using testing::small_cell;

constexpr ReturnPoint points[] = {ReturnPoint::in_step, ReturnPoint::in_capture,
                                  ReturnPoint::before_replay, ReturnPoint::in_flight};

FaultSwitches hidden_reference() {
  FaultSwitches faults;
  faults.turn_on(Fault::f32e_hidden_reference);
  return faults;
}

void expect_clean(const EarlyReturn& result, ReturnPoint point) {
  EXPECT_EQ(result.ended, "") << return_point_name(point);
  EXPECT_EQ(result.kept, "") << return_point_name(point);
  EXPECT_EQ(result.left, "") << return_point_name(point);
  EXPECT_EQ(result.again, "") << return_point_name(point);
}

class EarlyReturns : public ::testing::TestWithParam<CudaGraphImpl> {
 protected:
  std::unique_ptr<Device> device_ = create_reference_device({.arena_bytes = 64 << 20});
  matrix::Cell cell_ = small_cell(GetParam());
};

TEST_P(EarlyReturns, LeaveNothingAndDisturbNoTrainingAfterThem) {
  EarlyReturnTrial trial(*device_, nullptr, cell_, 11);
  ASSERT_EQ(trial.trouble(), "");
  for (const ReturnPoint point : points) expect_clean(trial.run(point, nullptr), point);
}

TEST_P(EarlyReturns, EndTheLegAtTheirPointWithWhatWasDoneSoFar) {
  const auto run = [&](ReturnPoint point) {
    const LegRecord record = run_leg(cell_, {.kind = LegKind::graph},
                                     {.device = *device_, .seed = 11, .returns_at = point});
    EXPECT_EQ(record.error, early_return_text(point));
    EXPECT_TRUE(record.teardown.done);
    EXPECT_EQ(record.error_phase, Phase::teardown) << "its time is counted from the return";
    return record.totals;
  };
  EXPECT_EQ(run(ReturnPoint::in_step).captured_nodes, 0U);
  EXPECT_EQ(run(ReturnPoint::in_capture).graph_launches, 0U);
  const LaunchCounters captured = run(ReturnPoint::before_replay);
  EXPECT_GT(captured.captured_nodes, 0U);
  EXPECT_EQ(captured.graph_launches, 0U);
  EXPECT_EQ(run(ReturnPoint::in_flight).graph_launches, 1U);
}

TEST_P(EarlyReturns, TakeNoMoreTimeThanTheirTeardown) {
  EarlyReturnTrial trial(*device_, nullptr, cell_, 11);
  EXPECT_GT(trial.undisturbed_seconds(), 0.0);
  const auto start = std::chrono::steady_clock::now();
  const EarlyReturn result = trial.run(ReturnPoint::in_flight, nullptr);
  const std::chrono::duration<double> with_training = std::chrono::steady_clock::now() - start;
  EXPECT_GT(result.seconds, 0.0);
  EXPECT_LT(result.seconds, with_training.count());
}

TEST_P(EarlyReturns, ThatForgetAGraphAreSeenToKeepIt) {
  const FaultSwitches faults = hidden_reference();
  EarlyReturnTrial trial(*device_, nullptr, cell_, 11);
  const EarlyReturn result = trial.run(ReturnPoint::before_replay, &faults);
  EXPECT_EQ(result.ended, "");
  EXPECT_NE(result.kept.find("1 executables"), std::string::npos) << result.kept;
}

INSTANTIATE_TEST_SUITE_P(Implementations, EarlyReturns,
                         ::testing::Values(CudaGraphImpl::local, CudaGraphImpl::transformer_engine,
                                           CudaGraphImpl::full_iteration));

TEST(EarlyReturnsOfAGang, LeaveNothingWhereGradientsAreReducedInTheCapture) {
  constexpr int ranks = 2;
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&store, rank] {
      const auto device = create_reference_device({.arena_bytes = 64 << 20});
      const auto gang = device->create_communicator(
          {.name = "gang", .rank = rank, .size = ranks, .store = store});
      matrix::Cell cell = small_cell(CudaGraphImpl::full_iteration);
      cell.config.data_parallel_size = ranks;
      EarlyReturnTrial trial(*device, gang.get(), cell, 11);
      EXPECT_EQ(trial.trouble(), "");
      for (const ReturnPoint point : points) expect_clean(trial.run(point, nullptr), point);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cgconform::workloads
