#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/checks/capture_recovery.hpp"
#include "suites/checks/communicator_ends.hpp"
#include "suites/checks/destroy_scenarios.hpp"
#include "suites/checks/early_return.hpp"
#include "suites/checks/memory_growth.hpp"
#include "suites/checks/memory_guards.hpp"
#include "suites/checks/pool_scenarios.hpp"
#include "suites/selftest_table.hpp"
#include "workloads/device/device.hpp"
#include "workloads/faults/fault_switches.hpp"

namespace cgconform::suites::checks {
namespace {

using testing::HasSubstr;

class MemoryScenarios : public testing::Test {
 protected:
  /// What a scenario says, with children that all end as given.
  CheckResult run(CheckResult (*scenario)(ScenarioContext&), ChildEnd children = ChildEnd::hung) {
    ScenarioContext context{.device = device_.get(),
                            .seed = 3,
                            .faults = &faults_,
                            .start_children = [&](const std::vector<ChildRequest>& requests) {
                              return std::vector<ChildOutcome>(requests.size(), {.end = children});
                            }};
    return scenario(context);
  }

  std::unique_ptr<workloads::Device> device_ = workloads::create_reference_device({});
  workloads::FaultSwitches faults_;
};

TEST_F(MemoryScenarios, PassOnAHealthyDevice) {
  for (const auto scenario :
       {judge_hundred_cycles, judge_raised_once, judge_replay_order, judge_held_outputs,
        judge_guard_control, judge_capture_recovery, judge_recapture, judge_destroy_orders,
        judge_communicator_teardown, judge_communicator_ends, judge_never_launched}) {
    const CheckResult result = run(scenario);
    EXPECT_EQ(result.verdict, Verdict::pass) << result.detail;
  }
}

TEST(EarlyReturnCheck, SetsTheTeardownAgainstAnUndisturbedTraining) {
  EXPECT_EQ(late_teardown(9.0, 0.1), "");
  EXPECT_EQ(late_teardown(60.0, 20.0), "") << "where everything is slow";
  EXPECT_THAT(late_teardown(60.0, 0.1), HasSubstr("took 60.0 s, the limit is 11.0 s"));
}

TEST_F(MemoryScenarios, NameTheRefusalAndTheHarmOfAnotherReplayOrder) {
  const CheckResult result = run(judge_replay_order);
  EXPECT_THAT(result.detail, HasSubstr("'B0' is to be launched where 'B1' is planned"));
  EXPECT_THAT(result.detail, HasSubstr("unrefused, micro-batch 1 is wrong"));
}

TEST_F(MemoryScenarios, FailWhereTheLibrarysOwnCallComesBackOrItsProcessDies) {
  for (const ChildEnd end : {ChildEnd::exited, ChildEnd::failed, ChildEnd::no_start}) {
    EXPECT_EQ(run(judge_communicator_ends, end).verdict, Verdict::fail_teardown)
        << child_end_name(end);
  }
}

TEST_F(MemoryScenarios, JudgeTwoRanksByTheEndOfTheirProcesses) {
  EXPECT_EQ(run(judge_teardown_of_ranks, ChildEnd::exited).verdict, Verdict::pass);
  EXPECT_EQ(run(judge_teardown_of_ranks, ChildEnd::failed).verdict, Verdict::fail_teardown);
  EXPECT_EQ(run(judge_teardown_of_ranks, ChildEnd::hung).verdict, Verdict::fail_teardown);
  EXPECT_EQ(run(judge_teardown_of_ranks, ChildEnd::no_start).verdict, Verdict::fail_suite);
}

TEST_F(MemoryScenarios, DoNotPassWhereNoChildCanBeStarted) {
  ScenarioContext context{.device = device_.get()};
  EXPECT_EQ(judge_communicator_ends(context).verdict, Verdict::skip);
  EXPECT_EQ(judge_teardown_of_ranks(context).verdict, Verdict::skip);
}

/// The rows of device scenarios: one rank, no child processes, and the rules as they are.
std::vector<SelftestRow> scenario_rows() {
  std::vector<SelftestRow> rows;
  for (const SelftestRow& row : selftest_table()) {
    const bool in_children = row.scenario == judge_teardown_of_ranks;
    const bool elsewhere = row.scenario_ranks > 1 || row.tampering != RuleTampering::none;
    if (row.scenario != nullptr && !in_children && !elsewhere) rows.push_back(row);
  }
  return rows;
}

std::string test_name(const testing::TestParamInfo<SelftestRow>& info) {
  std::string name = info.param.id;
  for (char& c : name) {
    if (c == '/' || c == '-') c = '_';
  }
  return name;
}

class ScenarioRows : public testing::TestWithParam<SelftestRow> {};

TEST_P(ScenarioRows, EndAsTheTableSaysAndLeaveTheDeviceUsable) {
  const SelftestRow& row = GetParam();
  const auto device = workloads::create_reference_device({});
  workloads::FaultSwitches faults;
  for (const workloads::Fault fault : row.faults) faults.turn_on(fault);
  ScenarioContext context{.device = device.get(), .seed = 1, .faults = &faults};
  const CheckResult result = row.scenario(context);
  EXPECT_EQ(result.verdict, row.expected) << result.detail;
  ScenarioContext afterwards{.device = device.get(), .seed = 2};
  const CheckResult healthy = judge_capture_recovery(afterwards);
  EXPECT_EQ(healthy.verdict, Verdict::pass) << healthy.detail;
}

INSTANTIATE_TEST_SUITE_P(InProcess, ScenarioRows, testing::ValuesIn(scenario_rows()), test_name);

}  // namespace
}  // namespace cgconform::suites::checks
