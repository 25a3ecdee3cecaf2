#include "harness/gang_scheduler.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

using ::testing::ElementsAre;

PlannedCell cell(const std::string& hash, int ranks) {
  PlannedCell planned;
  planned.name = {hash, hash};
  planned.ranks = ranks;
  return planned;
}

/// A scheduler with simulated supervisors: it keeps what each rank was given.
class SimulatedRanks {
 public:
  explicit SimulatedRanks(int ranks) : scheduler_({.ranks = ranks}) {}

  GangScheduler& scheduler() { return scheduler_; }

  void dispatch() {
    scheduler_.dispatch();
    collect();
  }
  void collect() {
    for (const Outgoing& outgoing : scheduler_.take_messages()) {
      if (const auto* assignment = std::get_if<Assignment>(&outgoing.message)) {
        given_[outgoing.rank] = *assignment;
      } else if (std::holds_alternative<StopAssignment>(outgoing.message)) {
        stopped_.insert(outgoing.rank);
      }
    }
  }
  bool busy(int rank) const { return given_.contains(rank); }
  const Assignment& given(int rank) const { return given_.at(rank); }
  std::set<int>& stopped() { return stopped_; }

  void report(int rank, std::optional<suites::AbnormalEnd> end = std::nullopt) {
    CellReport report;
    report.assignment = given(rank).id;
    report.report.rank = given(rank).rank;
    report.report.world_rank = rank;
    if (end) ++generations_[rank];
    report.report.abnormal_end = std::move(end);
    report.worker_generation = generations_[rank];
    given_.erase(rank);
    scheduler_.on_report(rank, report);
    collect();
  }

 private:
  GangScheduler scheduler_;
  std::map<int, Assignment> given_;
  std::map<int, std::uint64_t> generations_;
  std::set<int> stopped_;
};

TEST(GangScheduler, RunsCellsSideBySideOnDisjointGangs) {
  SimulatedRanks ranks(4);
  ranks.scheduler().add(cell("a", 2), 1);
  ranks.scheduler().add(cell("b", 1), 1);
  ranks.scheduler().add(cell("c", 1), 1);
  ranks.dispatch();
  EXPECT_THAT(ranks.given(0).world_ranks, ElementsAre(0, 1));
  EXPECT_EQ(ranks.given(0).id, ranks.given(1).id);
  EXPECT_THAT(ranks.given(2).world_ranks, ElementsAre(2));
  EXPECT_THAT(ranks.given(3).world_ranks, ElementsAre(3));
  EXPECT_EQ(ranks.scheduler().running(), 3U);
}

TEST(GangScheduler, KeepsAGangWhileItsWorkersAreTheSame) {
  SimulatedRanks ranks(2);
  ranks.scheduler().add(cell("a", 2), 1);
  ranks.dispatch();
  const std::uint64_t gang = ranks.given(0).gang;
  EXPECT_TRUE(ranks.given(0).new_gang);
  ranks.report(0);
  ranks.report(1);
  ranks.scheduler().add(cell("b", 2), 1);
  ranks.dispatch();
  EXPECT_EQ(ranks.given(1).gang, gang);
  EXPECT_FALSE(ranks.given(1).new_gang);
}

PlannedCell cell_in(const std::string& hash, const matrix::ProcessEnvironment& environment) {
  PlannedCell planned = cell(hash, 2);
  planned.environment = environment;
  return planned;
}

TEST(GangScheduler, RunsCellsOfOneEnvironmentBehindEachOtherOnOneGang) {
  const matrix::ProcessEnvironment on{{"NCCL_GRAPH_REGISTER", "1"}};
  const matrix::ProcessEnvironment off{{"NCCL_GRAPH_REGISTER", "0"}};
  SimulatedRanks ranks(2);
  for (const char* hash : {"on1", "on2", "on3"}) ranks.scheduler().add(cell_in(hash, on), 1);
  ranks.scheduler().add(cell_in("off1", off), 1);
  ranks.scheduler().add(cell_in("on4", on), 1);
  std::vector<std::string> order;
  std::set<std::uint64_t> gangs;
  while (!ranks.scheduler().idle()) {
    ranks.dispatch();
    order.push_back(ranks.given(0).name.id);
    gangs.insert(ranks.given(0).gang);
    EXPECT_EQ(ranks.given(0).environment, order.back() == "off1" ? off : on);
    ranks.report(0);
    ranks.report(1);
  }
  EXPECT_THAT(order, ElementsAre("on1", "on2", "on3", "on4", "off1"));
  EXPECT_EQ(gangs.size(), 2U);
}

TEST(GangScheduler, PrefersRanksWhoseWorkersHaveTheEnvironment) {
  const matrix::ProcessEnvironment on{{"NCCL_GRAPH_REGISTER", "1"}};
  SimulatedRanks ranks(4);
  ranks.scheduler().add(cell("plain", 2), 1);
  ranks.scheduler().add(cell_in("on1", on), 1);
  ranks.dispatch();
  for (int rank = 0; rank < 4; ++rank) ranks.report(rank);
  ranks.scheduler().add(cell_in("on2", on), 1);
  ranks.dispatch();
  EXPECT_THAT(ranks.given(2).world_ranks, ElementsAre(2, 3));
  EXPECT_FALSE(ranks.given(2).new_gang);
}

TEST(GangScheduler, DoesNotLetACellOfAnotherEnvironmentStarve) {
  const matrix::ProcessEnvironment on{{"NCCL_GRAPH_REGISTER", "1"}};
  SimulatedRanks ranks(2);
  ranks.scheduler().add(cell("first", 2), 1);
  ranks.dispatch();
  ranks.scheduler().add(cell_in("waiting", on), 1);
  int started_before = 0;
  while (ranks.given(0).name.id != "waiting") {
    ASSERT_LE(++started_before, 100);
    ranks.scheduler().add(cell("more", 2), 1);
    ranks.report(0);
    ranks.report(1);
    ranks.dispatch();
  }
}

TEST(GangScheduler, TurnsFaultsOnForTheirRankAlone) {
  PlannedCell planned = cell("a", 2);
  planned.faults = {"F02a"};
  planned.fault_rank = 1;
  SimulatedRanks ranks(2);
  ranks.scheduler().add(planned, 1);
  ranks.dispatch();
  EXPECT_THAT(ranks.given(0).faults, ElementsAre());
  EXPECT_THAT(ranks.given(1).faults, ElementsAre("F02a"));
}

TEST(GangScheduler, LetsAllRanksShareLegsOrNoneEvenWhereOneAloneHasAFault) {
  PlannedCell planned = cell("a", 2);
  planned.faults = {"F02a"};
  planned.fault_rank = 1;
  SimulatedRanks ranks(4);
  ranks.scheduler().add(planned, 1);
  ranks.scheduler().add(cell("b", 2), 1);
  ranks.dispatch();
  for (const int rank : {0, 1, 2, 3}) {
    EXPECT_EQ(ranks.given(rank).shares_legs, ranks.given(rank).name.id == "b") << rank;
  }
}

TEST(GangScheduler, MakesANewGangAfterAWorkerWasLost) {
  SimulatedRanks ranks(2);
  ranks.scheduler().add(cell("a", 2), 1);
  ranks.dispatch();
  const std::uint64_t gang = ranks.given(0).gang;
  ranks.report(0);
  ranks.report(1);
  ranks.scheduler().on_worker_lost(1, WorkerLost{5});
  ranks.scheduler().add(cell("b", 2), 1);
  ranks.dispatch();
  EXPECT_NE(ranks.given(0).gang, gang);
  EXPECT_TRUE(ranks.given(0).new_gang);
}

TEST(GangScheduler, MakesANewGangWhereAWorkerWasLostWhileItsPeersStillRan) {
  SimulatedRanks ranks(2);
  ranks.scheduler().add(cell("a", 2), 1);
  ranks.dispatch();
  const std::uint64_t gang = ranks.given(0).gang;
  ranks.report(1);
  ranks.scheduler().on_worker_lost(1, WorkerLost{5});
  ranks.report(0);
  ranks.scheduler().add(cell("b", 2), 1);
  ranks.dispatch();
  EXPECT_NE(ranks.given(0).gang, gang);
}

TEST(GangScheduler, StopsThePeersOfACrashAndWaitsForTheirReports) {
  SimulatedRanks ranks(3);
  ranks.scheduler().add(cell("a", 3), 1);
  ranks.dispatch();
  ranks.report(1, suites::AbnormalEnd{.signal = 11});
  EXPECT_THAT(ranks.stopped(), ElementsAre(0, 2));
  EXPECT_TRUE(ranks.scheduler().take_finished().empty());
  ranks.report(0, suites::AbnormalEnd{.ended_by_peer = true});
  ranks.report(2, suites::AbnormalEnd{.ended_by_peer = true});
  const auto finished = ranks.scheduler().take_finished();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].reports.size(), 3U);
  EXPECT_TRUE(ranks.scheduler().idle());
}

TEST(GangScheduler, RunsAStaleCellAgainWithoutAnAttemptLost) {
  SimulatedRanks ranks(1);
  ranks.scheduler().add(cell("a", 1), 1);
  ranks.dispatch();
  ranks.scheduler().on_stale(0, StaleAssignment{ranks.given(0).id, 2});
  EXPECT_TRUE(ranks.scheduler().take_finished().empty());
  ranks.dispatch();
  EXPECT_EQ(ranks.given(0).name.hash, "a");
  ranks.report(0);
  EXPECT_EQ(ranks.scheduler().take_finished().at(0).attempt, 1);
}

TEST(GangScheduler, LeavesAnExclusiveCellAlone) {
  SimulatedRanks ranks(2);
  PlannedCell alone = cell("a", 1);
  alone.exclusive = true;
  ranks.scheduler().add(alone, 1);
  ranks.scheduler().add(cell("b", 1), 1);
  ranks.dispatch();
  EXPECT_EQ(ranks.scheduler().running(), 1U);
  EXPECT_EQ(ranks.given(0).name.hash, "a");
  ranks.report(0);
  ranks.dispatch();
  EXPECT_EQ(ranks.given(0).name.hash, "b");
}

TEST(GangScheduler, LetsALargeCellStartThoughSmallOnesKeepComing) {
  SimulatedRanks ranks(2);
  ranks.scheduler().add(cell("small", 1), 1);
  ranks.dispatch();
  ranks.scheduler().add(cell("large", 2), 1);
  bool large_ran = false;
  for (int step = 0; step < 400 && !large_ran; ++step) {
    while (ranks.scheduler().wants_cells()) ranks.scheduler().add(cell("small", 1), 1);
    ranks.dispatch();
    // One rank at a time, so that never both are free by chance.
    const int rank = step % 2;
    if (!ranks.busy(rank)) continue;
    large_ran = ranks.given(rank).name.hash == "large";
    ranks.report(rank);
    ranks.scheduler().take_finished();
  }
  EXPECT_TRUE(large_ran);
}

TEST(GangScheduler, GivesARetryFreshWorkers) {
  SimulatedRanks ranks(1);
  ranks.scheduler().add(cell("a", 1), 2);
  ranks.dispatch();
  EXPECT_TRUE(ranks.given(0).fresh);
}

TEST(GangScheduler, HandsAValueToRanksThatAskedBeforeItWasThere) {
  SimulatedRanks ranks(2);
  ranks.scheduler().add(cell("a", 2), 1);
  ranks.dispatch();
  const std::uint64_t gang = ranks.given(0).gang;
  ranks.scheduler().on_store_get(1, StoreGet{gang, "address"});
  EXPECT_TRUE(ranks.scheduler().take_messages().empty());
  ranks.scheduler().on_store_set(StoreSet{gang, "address", "here"});
  const auto messages = ranks.scheduler().take_messages();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].rank, 1);
  EXPECT_EQ(std::get<StoreValue>(messages[0].message).value, "here");
}

TEST(GangScheduler, RefusesAReportThatNobodyAskedFor) {
  SimulatedRanks ranks(1);
  EXPECT_THROW(ranks.scheduler().on_report(0, CellReport{99, {}, 0}), InternalError);
}

}  // namespace
}  // namespace cgconform::harness
