#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/comparison.hpp"
#include "tests/suites/synthetic_legs.hpp"

namespace cgconform::suites {
namespace {

using testing::HasSubstr;

/// Runs a cell on synthetic legs of which some are broken.
class MemoryJudges : public testing::Test {
 protected:
  RankReport run(const std::function<void(const LegRequest&, LegRecord&)>& break_leg,
                 const matrix::Cell& cell = SyntheticLegs::cell()) {
    const auto comparator = create_device_comparator(legs_.device());
    const LegSource source = [&](const matrix::Cell& asked, const LegRequest& request) {
      LegRecord record = legs_.healthy(asked, request);
      break_leg(request, record);
      return record;
    };
    return run_cell(cell, {.cell_id = "synthetic"}, source, {legs_.device(), *comparator});
  }

  /// Breaks one leg and expects what the check says of it.
  void expect(const LegRequest& broken, const std::function<void(LegRecord&)>& break_leg,
              std::string_view check_id, Verdict verdict, const std::string& detail) {
    const RankReport report = run([&](const LegRequest& request, LegRecord& record) {
      if (request == broken) break_leg(record);
    });
    for (const CheckResult& check : report.checks) {
      if (check.check_id != check_id) continue;
      EXPECT_EQ(check.verdict, verdict) << check.detail;
      EXPECT_THAT(check.detail, HasSubstr(detail));
      return;
    }
    ADD_FAILURE() << check_id << " judged nothing";
  }

  SyntheticLegs legs_;
};

TEST_F(MemoryJudges, FindGrowthOverCycles) {
  expect(
      cycle_leg(),
      [](LegRecord& record) {
        for (std::size_t i = 0; i < record.cycles.size(); ++i) {
          record.cycles[i].after.live_blocks += static_cast<std::int64_t>(i);
        }
      },
      "MEM-01", Verdict::fail_leak, "blocks grow by 1 a cycle");
}

TEST_F(MemoryJudges, DoNotPassCyclesThatCapturedOrReplayedNothing) {
  expect(
      cycle_leg(), [](LegRecord& record) { record.cycles[3].replays = 0; }, "MEM-01",
      Verdict::fail_coverage, "cycle 3 has 4 captures and 0 replays");
  expect(
      cycle_leg(), [](LegRecord& record) { record.cycles.resize(2); }, "MEM-01",
      Verdict::fail_coverage, "2 cycles show no slope");
}

TEST_F(MemoryJudges, FindWhatIsLeftAfterTheTeardown) {
  expect(
      graph_leg(), [](LegRecord& record) { ++record.memory_at_end.device.user_objects; }, "MEM-02",
      Verdict::fail_leak, "user objects of graphs: 0 at the start, 1 after");
  expect(
      cycle_leg(), [](LegRecord& record) { record.memory_at_end.reserved_bytes = 4096; }, "MEM-02",
      Verdict::fail_leak, "bytes in segments");
  expect(
      graph_leg(), [](LegRecord& record) { record.memory_at_end.taken = false; }, "MEM-02",
      Verdict::fail_coverage, "not looked at");
}

TEST_F(MemoryJudges, FindGraphsThatDoNotShareTheirPool) {
  expect(
      graph_leg(), [](LegRecord& record) { record.pools["graph 1"] = record.pools["graph 0"]; },
      "MEM-03", Verdict::fail_leak, "have 2 pools");
  expect(
      other_pools_leg(),
      [](LegRecord& record) {
        std::erase_if(record.pools, [](const auto& pool) {
          return pool.first != "default" && pool.first != "graph 0";
        });
      },
      "MEM-03", Verdict::fail_leak, "separate pools have");
}

TEST_F(MemoryJudges, FindResultsThatThePoolsChange) {
  expect(
      other_pools_leg(),
      [this](LegRecord& record) {
        legs_.write(SyntheticLegs::find(record, ObservedQuantity::weight, 1).snapshot.view(),
                    -1.0F);
      },
      "MEM-03", Verdict::fail_overwrite, "step 1");
}

TEST_F(MemoryJudges, FindAPeakBeyondItsFactor) {
  expect(
      graph_leg(), [](LegRecord& record) { record.pools["default"].peak_active_bytes = 100000; },
      "MEM-05", Verdict::fail_leak, "times eager's 1000");
  expect(
      eager_leg(), [](LegRecord& record) { record.pools.clear(); }, "MEM-05",
      Verdict::fail_coverage, "used no memory");
}

TEST_F(MemoryJudges, FindWritesOutsideBlocks) {
  expect(
      instrumented_graph_leg(),
      [](LegRecord& record) { record.damaged_guards.push_back({.bytes = 64, .label = "output"}); },
      "MEM-17", Verdict::fail_overwrite, "'output'");
  expect(
      instrumented_graph_leg(),
      [](LegRecord& record) { record.written_when_free.push_back({.label = "never handed out"}); },
      "MEM-17", Verdict::fail_overwrite, "never handed out");
  expect(
      instrumented_graph_leg(), [](LegRecord& record) { record.guards_inspected = 0; }, "MEM-17",
      Verdict::fail_coverage, "no guard band");
}

TEST_F(MemoryJudges, FindADisorderedTeardown) {
  const LegRequest leg = graph_leg();
  expect(
      leg, [](LegRecord& r) { r.teardown.lost_operands.emplace_back("graph 'a' node 0: freed"); },
      "LIF-07", Verdict::fail_teardown, "memory was gone before its graph: graph 'a'");
  expect(
      leg, [](LegRecord& r) { r.graphs[1].destroy_order = -1; }, "LIF-07", Verdict::fail_teardown,
      "was not destroyed");
  expect(
      leg, [](LegRecord& r) { r.teardown.captured_nodes_after = 2; }, "LIF-07",
      Verdict::fail_teardown, "2 nodes were captured after the cleanup");
  expect(
      leg, [](LegRecord& r) { ++r.memory_at_end.device.executables; }, "LIF-07",
      Verdict::fail_teardown, "1 executables live on");
  expect(
      leg, [](LegRecord& r) { r.teardown.communicator_references = 1; }, "LIF-07",
      Verdict::fail_teardown, "still hold the communicator");
  expect(
      leg, [](LegRecord& r) { r.teardown.done = false; }, "LIF-07", Verdict::fail_coverage,
      "was not torn down");
}

TEST_F(MemoryJudges, MeasureWhatGraphsNeedMoreThanEager) {
  const RankReport report = run([](const LegRequest& request, LegRecord& record) {
    if (request != graph_leg()) return;
    for (auto& graph : record.graphs) graph.pool_bytes = 10;
    record.graphs.front().pool_bytes = 70;
  });
  EXPECT_EQ(report.measurements.at("memory eager peak active bytes"), 1000.0);
  EXPECT_EQ(report.measurements.at("memory graph peak active bytes"), 1100.0);
  EXPECT_EQ(report.measurements.at("memory graph overhead bytes"), 100.0);
  EXPECT_DOUBLE_EQ(report.measurements.at("memory graph overhead ratio"), 1.1);
  EXPECT_EQ(report.measurements.at("memory graph private pools"), 1.0);
  EXPECT_EQ(report.measurements.at("memory graph largest graph bytes"), 70.0);
  EXPECT_GT(report.measurements.at("memory graph other pools private pools"), 1.0);
}

}  // namespace
}  // namespace cgconform::suites
