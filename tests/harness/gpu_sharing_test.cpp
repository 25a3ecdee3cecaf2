#include "harness/gpu_sharing.hpp"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/device_selection.hpp"
#include "harness/gang_scheduler.hpp"
#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

using ::testing::HasSubstr;

TEST(GpuSharing, LeavesEverythingAsItIsWhereEveryRankHasAGpu) {
  const std::vector<RankGpu> ranks{{"a", "GPU-0"}, {"a", "GPU-1"}, {"b", "GPU-2"}};
  const GpuSharing sharing = decide_gpu_sharing(ranks);
  EXPECT_FALSE(sharing.shared);
  EXPECT_TRUE(sharing.notice.empty());
  EXPECT_TRUE(sharing.environments.empty());
}

TEST(GpuSharing, GivesEveryRankOfTheJobAHostOfItsOwnWhereTwoShareAGpu) {
  // Ranks 0 and 1 alone would be a gang that shares nothing; rank 2 shares with rank 0.
  const std::vector<RankGpu> ranks{{"a", "GPU-0"}, {"a", "GPU-1"}, {"a", "GPU-0"}, {"a", "GPU-1"}};
  const GpuSharing sharing = decide_gpu_sharing(ranks);
  EXPECT_TRUE(sharing.shared);
  EXPECT_THAT(sharing.notice, HasSubstr("ranks 0 2 share GPU-0, ranks 1 3 share GPU-1"));
  ASSERT_EQ(sharing.environments.size(), ranks.size());
  std::set<std::string> hosts;
  for (const matrix::ProcessEnvironment& variables : sharing.environments) {
    hosts.insert(variables.at("NCCL_HOSTID"));
    EXPECT_EQ(variables.at("NCCL_SOCKET_IFNAME"), "lo");
    EXPECT_EQ(variables.at("NCCL_NET"), "Socket");
  }
  EXPECT_EQ(hosts.size(), ranks.size());
}

TEST(GpuSharing, LeavesTheInterfaceToNcclWhereTheJobSpansHosts) {
  const std::vector<RankGpu> ranks{{"a", "GPU-0"}, {"a", "GPU-0"}, {"b", "GPU-2"}};
  const GpuSharing sharing = decide_gpu_sharing(ranks);
  ASSERT_EQ(sharing.environments.size(), ranks.size());
  EXPECT_FALSE(sharing.environments[2].contains("NCCL_SOCKET_IFNAME"));
  EXPECT_TRUE(sharing.environments[2].contains("NCCL_HOSTID"));
}

TEST(GpuSharing, NamesTheRankForWhichNoGpuAnswers) {
  std::vector<Hello> ranks(2);
  ranks[0].facts[gpu_id_fact] = "GPU-0";
  ranks[1].world_rank = 1;
  ranks[1].host = "node7";
  try {
    gpus_of(ranks);
    FAIL() << "a rank without a GPU must end the run";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 on node7"));
  }
}

TEST(GpuSharing, ReachesEachRanksWorkersBesideTheVariablesOfTheCell) {
  SchedulerOptions options;
  options.ranks = 2;
  options.gpus = {3, 5};
  options.gpus_shared = true;
  options.rank_environments = {{{"NCCL_HOSTID", "zero"}}, {{"NCCL_HOSTID", "one"}}};
  GangScheduler scheduler(options);
  PlannedCell planned;
  planned.ranks = 2;
  planned.environment = {{"NCCL_GRAPH_REGISTER", "0"}};
  scheduler.add(planned, 1);
  scheduler.dispatch();
  const std::vector<Outgoing> messages = scheduler.take_messages();
  ASSERT_EQ(messages.size(), 2U);
  const auto& second = std::get<Assignment>(messages[1].message);
  EXPECT_EQ(second.gpu, 5);
  EXPECT_TRUE(second.gpus_shared);
  const matrix::ProcessEnvironment expected{{"NCCL_GRAPH_REGISTER", "0"}, {"NCCL_HOSTID", "one"}};
  EXPECT_EQ(second.environment, expected);
}

}  // namespace
}  // namespace cgconform::harness
