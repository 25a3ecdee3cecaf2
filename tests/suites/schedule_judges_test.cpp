#include <functional>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/comparison.hpp"
#include "suites/pipeline_passes.hpp"
#include "tests/suites/synthetic_legs.hpp"

namespace cgconform::suites {
namespace {

using matrix::CudaGraphImpl;
using testing::HasSubstr;
using workloads::LegKind;

class ScheduleJudges : public testing::Test {
 protected:
  using Break = std::function<void(const LegRequest&, LegRecord&)>;

  RankReport run(const matrix::Cell& cell, const Break& break_graph) {
    const auto comparator = create_device_comparator(legs_.device());
    const LegSource source = [&](const matrix::Cell& asked, const LegRequest& request) {
      LegRecord record = legs_.healthy(asked, request);
      if (request.kind == LegKind::graph) break_graph(request, record);
      return record;
    };
    return run_cell(cell, {.cell_id = "synthetic"}, source, {legs_.device(), *comparator});
  }

  static CheckResult result_of(const RankReport& report, std::string_view id) {
    for (const CheckResult& check : report.checks) {
      if (check.check_id == id) return check;
    }
    return {.verdict = Verdict::skip, .detail = "not judged"};
  }

  static void expect(const CheckResult& result, Verdict verdict, const std::string& detail) {
    EXPECT_EQ(result.verdict, verdict) << result.detail;
    EXPECT_THAT(result.detail, HasSubstr(detail));
  }

  static matrix::Cell callables() {
    matrix::Cell cell = SyntheticLegs::cell();
    cell.config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
    cell.config.cuda_graph_warmup_steps = 1;
    return cell;
  }

  SyntheticLegs legs_;
};

void nothing(const LegRequest&, LegRecord&) {}

TEST_F(ScheduleJudges, NameReplaysInAnotherOrderThanTheirCapture) {
  const matrix::Cell cell = SyntheticLegs::cell();
  expect(result_of(run(cell, nothing), "CON-17"), Verdict::pass, "replayed as captured");
  const RankReport report = run(cell, [](const LegRequest&, LegRecord& record) {
    std::swap(record.executions.at(record.executions.size() - 2).graph,
              record.executions.back().graph);
  });
  expect(result_of(report, "CON-17"), Verdict::fail_schedule_order, "was captured");
  const CheckResult* deciding = deciding_check(report.checks);
  ASSERT_NE(deciding, nullptr);
  EXPECT_EQ(deciding->check_id, "CON-17");
}

TEST_F(ScheduleJudges, NameGraphsForTooManyMicrobatches) {
  const RankReport report = run(SyntheticLegs::cell(), [](const LegRequest&, LegRecord& record) {
    record.graphs.push_back(record.graphs.front());
    record.graphs.back().microbatch = 1;
  });
  expect(result_of(report, "CON-17"), Verdict::fail_coverage, "for 2 micro-batches");
}

TEST_F(ScheduleJudges, NameAGraphThatWritesTheInputOfAnother) {
  const RankReport report = run(callables(), [](const LegRequest&, LegRecord& record) {
    auto& operand = record.graphs.front().nodes.front().operands.front();
    operand.access = workloads::Access::write;
    operand.tensor.data = const_cast<void*>(record.graphs.at(1).input);
  });
  expect(result_of(report, "CON-17"), Verdict::fail_schedule_order, "static input");
}

TEST_F(ScheduleJudges, CountStaticInputs) {
  const matrix::Cell cell = callables();
  expect(result_of(run(cell, nothing), "MEM-06"), Verdict::pass, "2 static inputs");
  const RankReport shared = run(cell, [](const LegRequest&, LegRecord& record) {
    record.graphs.at(1).input = record.graphs.at(0).input;
  });
  expect(result_of(shared, "MEM-06"), Verdict::fail_leak, "1 static inputs, 2 are needed");
  const RankReport unknown = run(cell, [](const LegRequest&, LegRecord& record) {
    for (auto& graph : record.graphs) graph.input = nullptr;
  });
  expect(result_of(unknown, "MEM-06"), Verdict::fail_coverage, "names no static input");
}

TEST_F(ScheduleJudges, NameLayersThatShouldHaveNoGraphs) {
  matrix::Cell cell = SyntheticLegs::cell();
  cell.shape.graphed_layers = matrix::GraphedLayers::odd;
  expect(result_of(run(cell, nothing), "NUM-24"), Verdict::pass, "layers 1 only");
  const RankReport report =
      run(cell, [](const LegRequest&, LegRecord& record) { record.graphs.front().layer = 0; });
  expect(result_of(report, "NUM-24"), Verdict::fail_coverage, "layers 0 1 have graphs");
}

TEST_F(ScheduleJudges, NameTransfersInGraphsOfLayersAndTheirLackInIterations) {
  matrix::Cell cell = SyntheticLegs::cell();
  cell.config.pipeline_model_parallel_size = 2;
  expect(result_of(run(cell, nothing), "COM-08"), Verdict::pass, "outside of graphs");
  const RankReport inside = run(cell, [](const LegRequest&, LegRecord& record) {
    record.graphs.front().nodes.front().kind = workloads::NodeKind::communication;
  });
  expect(result_of(inside, "COM-08"), Verdict::fail_coverage, "has to stay outside");
  const RankReport of_layer = run(cell, [](const LegRequest&, LegRecord& record) {
    workloads::GraphNode& node = record.graphs.front().nodes.front();
    node.kind = workloads::NodeKind::communication;
    node.communicator = "gang0 tensor parallel 1";
  });
  expect(result_of(of_layer, "COM-08"), Verdict::pass, "outside of graphs");

  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.cuda_graph_warmup_steps = 1;
  const RankReport report = run(cell, nothing);
  expect(result_of(report, "COM-07"), Verdict::fail_coverage,
         "0 sends and 0 receives, the schedule has 3 and 3");
}

TEST_F(ScheduleJudges, NameTopologiesThatDiffer) {
  const matrix::Cell cell = SyntheticLegs::cell();
  expect(result_of(run(cell, nothing), "TLG-02"), Verdict::pass, "twice");
  const RankReport anew = run(cell, [](const LegRequest& request, LegRecord& record) {
    if (request != timed_graph_leg()) return;
    for (auto& graph : record.graphs) graph.nodes.back().dependencies = {0};
  });
  expect(result_of(anew, "TLG-02"), Verdict::fail_nondeterminism, "captured anew");
  const RankReport layer = run(cell, [](const LegRequest&, LegRecord& record) {
    record.graphs.at(1).nodes.back().kind = workloads::NodeKind::copy;
  });
  expect(result_of(layer, "TLG-02"), Verdict::fail_nondeterminism, "captures of one body");
}

TEST(PipelinePasses, FollowTheOrdersThatMegatronCoreGives) {
  matrix::Cell cell;
  cell.config.num_layers = 8;
  const auto order = [&](int rank) {
    std::vector<int> entries;
    for (const Pass& pass : training_passes(cell, rank)) {
      entries.push_back(pass.forward ? pass.chunk + 1 : -pass.chunk - 1);
    }
    return entries;
  };
  cell.config.pipeline_model_parallel_size = 2;
  cell.config.virtual_pipeline_model_parallel_size = 2;
  cell.config.num_microbatches = 4;
  EXPECT_EQ(order(0), (std::vector<int>{1, 1, 2, 2, 1, -2, 1, -2, 2, -1, 2, -1, -2, -2, -1, -1}));
  cell.config.num_microbatches = 5;
  cell.config.microbatch_group_size_per_vp_stage = 3;
  EXPECT_EQ(order(0), (std::vector<int>{1,  1, 1,  2, 2,  2,  -2, 1,  -2, 1,
                                        -2, 2, -1, 2, -1, -1, -2, -2, -1, -1}));
}

}  // namespace
}  // namespace cgconform::suites
