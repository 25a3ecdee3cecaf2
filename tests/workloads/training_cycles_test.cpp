#include <string>

#include <gmock/gmock.h>

#include "tests/workloads/scripted_gang.hpp"
#include "tests/workloads/training_legs.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using testing::small_cell;

class OneRankCycles : public testing::OneRankLegs {
 protected:
  static constexpr LegRequest cycles{.cycles = 4, .kind = LegKind::graph, .replay_seed = 5};
};

class CycleLegs : public OneRankCycles, public ::testing::WithParamInterface<CudaGraphImpl> {};

TEST_P(CycleLegs, CaptureReplayAndDestroyInEveryCycle) {
  const LegRecord record = run(small_cell(GetParam()), cycles);
  ASSERT_EQ(record.error, "");
  ASSERT_EQ(record.cycles.size(), 4U);
  for (const CycleRecord& cycle : record.cycles) {
    EXPECT_GT(cycle.captures, 0U);
    EXPECT_EQ(cycle.captures, record.cycles[0].captures);
    EXPECT_GE(cycle.replays, cycle.captures);
    EXPECT_EQ(cycle.after.device.executables, record.memory_at_start.device.executables);
    EXPECT_EQ(cycle.after.live_blocks, record.memory_at_start.live_blocks);
  }
  EXPECT_TRUE(record.observations.empty());
}

TEST_P(CycleLegs, LegsThatTrainEndWithWhatTheyStartedWith) {
  const LegRecord record = run(small_cell(GetParam()), graph);
  EXPECT_EQ(record.memory_at_end.live_blocks, record.memory_at_start.live_blocks);
  EXPECT_EQ(record.memory_at_end.active_bytes, record.memory_at_start.active_bytes);
  EXPECT_EQ(record.memory_at_end.device.graphs, record.memory_at_start.device.graphs);
  EXPECT_EQ(record.memory_at_end.device.user_objects, 0);
  EXPECT_TRUE(record.teardown.done);
  EXPECT_GT(record.teardown.operands, 0U);
  EXPECT_TRUE(record.teardown.lost_operands.empty()) << record.teardown.lost_operands.front();
  for (const GraphRecord& one : record.graphs) {
    EXPECT_GT(one.pool_bytes, 0) << one.name;
  }
}

TEST_P(CycleLegs, OtherPoolsAreSeparateWhereTheCellSharesOne) {
  LegRequest other = graph;
  other.other_pools = true;
  const LegRecord shared = run(small_cell(GetParam()), graph);
  const LegRecord separate = run(small_cell(GetParam()), other);
  EXPECT_EQ(shared.pools.size(), 2U) << "the default one and the graphs'";
  EXPECT_EQ(separate.pools.size(), 1 + separate.graphs.size());
}

TEST_F(OneRankCycles, EndWhereAPeerHasLeftTheLeg) {
  testing::ScriptedGang gang(0, [](const std::string& mine, int) {
    return mine == "cycle" ? std::string("outcome 1 2 3 it failed") : mine;
  });
  const LegRecord record = run_leg(small_cell(CudaGraphImpl::local), cycles,
                                   {.device = device(), .gang = &gang, .seed = 11});
  EXPECT_EQ(record.error_category, ErrorCategory::communicator_error);
  EXPECT_THAT(record.error, ::testing::HasSubstr("rank 1 does not go on with the cycles"));
  EXPECT_THAT(record.error, ::testing::HasSubstr("it failed"));
}

INSTANTIATE_TEST_SUITE_P(Implementations, CycleLegs,
                         ::testing::Values(CudaGraphImpl::local, CudaGraphImpl::full_iteration,
                                           CudaGraphImpl::transformer_engine));

}  // namespace
}  // namespace cgconform::workloads
