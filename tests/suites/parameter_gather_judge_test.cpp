#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/comparison.hpp"
#include "tests/suites/synthetic_legs.hpp"

namespace cgconform::suites {
namespace {

using testing::HasSubstr;
using workloads::GatherRecord;
using workloads::LegKind;

/// Two layers and what lies outside of them in two buckets.
class ParameterGatherJudge : public testing::Test {
 protected:
  using Break = std::function<void(const LegRequest&, LegRecord&)>;

  static matrix::Cell layers() {
    matrix::Cell cell = SyntheticLegs::cell();
    cell.config.data_parallel_size = 2;
    cell.config.use_distributed_optimizer = true;
    cell.config.overlap_param_gather = true;
    cell.shape.eval_interval = 2;
    return cell;
  }

  static matrix::Cell iterations() {
    matrix::Cell cell = layers();
    cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
    cell.config.cuda_graph_warmup_steps = 1;
    return cell;
  }

  /// COM-30 of healthy legs that `break_leg` has tampered with.
  CheckResult judge(const matrix::Cell& cell, const Break& break_leg) {
    const auto comparator = create_device_comparator(legs_.device());
    const LegSource source = [&](const matrix::Cell& asked, const LegRequest& request) {
      LegRecord record = legs_.healthy(asked, request);
      for (const char* name : {"weight:embedding", "weight:head"}) {
        record.observations.push_back(
            {ObservedQuantity::weight, {.step = 0, .tensor = name}, legs_.tensor(1.0F)});
      }
      add_gathers(asked, request, record);
      break_leg(request, record);
      return record;
    };
    const RankReport report =
        run_cell(cell, {.cell_id = "synthetic"}, source, {legs_.device(), *comparator});
    for (const CheckResult& check : report.checks) {
      if (check.check_id == "COM-30") return check;
    }
    return {.verdict = Verdict::skip, .detail = "not judged"};
  }

  CheckResult judge_graph(const matrix::Cell& cell, const std::function<void(LegRecord&)>& tamper) {
    return judge(cell, [&](const LegRequest& request, LegRecord& record) {
      if (request.kind == LegKind::graph) tamper(record);
    });
  }

  static void expect(const CheckResult& result, Verdict verdict, const std::string& detail) {
    EXPECT_EQ(result.verdict, verdict) << result.detail;
    EXPECT_THAT(result.detail, HasSubstr(detail));
  }

  /// The gather of a bucket in a step, the last one where validation gathers too.
  static GatherRecord& find(LegRecord& record, std::int32_t step, std::int32_t bucket) {
    const auto found = std::find_if(
        record.gathers.rbegin(), record.gathers.rend(),
        [&](const auto& gather) { return gather.step == step && gather.bucket == bucket; });
    if (found == record.gathers.rend()) throw InternalError("no such gather");
    return *found;
  }

  static void erase(LegRecord& record, std::int32_t step, std::int32_t bucket) {
    std::erase_if(record.gathers, [&](const GatherRecord& gather) {
      return gather.step == step && gather.bucket == bucket;
    });
  }

 private:
  static void gather_all(LegRecord& record, std::int32_t step, bool validation, bool captured) {
    const auto first = std::find_if(
        record.executions.begin(), record.executions.end(), [&](const auto& execution) {
          return execution.step == step && execution.validation == validation;
        });
    const auto before = static_cast<std::size_t>(first - record.executions.begin());
    record.gathers.push_back({.step = step,
                              .bucket = 0,
                              .captured = captured,
                              .layers = {-1, 0},
                              .executions_before = before});
    record.gathers.push_back({.step = step,
                              .bucket = 1,
                              .captured = captured,
                              .layers = {1, -1},
                              .executions_before = before});
  }

  static void add_gathers(const matrix::Cell& cell, const LegRequest& request, LegRecord& record) {
    const bool graphs = request.kind == LegKind::graph && captures_iterations(cell);
    for (std::int32_t step = 0; step < planned_steps(cell); ++step) {
      const bool validates = (step + 1) % 2 == 0;
      if (!graphs) {
        if (step > 0) gather_all(record, step, false, false);
        if (validates) gather_all(record, step, true, false);
        continue;
      }
      // One call of each kind before its capture.
      if (step < 2) gather_all(record, step, false, step == 1);
      if (validates && step < 4) gather_all(record, step, true, step == 3);
    }
    if (!graphs) return;
    for (workloads::GraphRecord& graph : record.graphs) {
      for (std::size_t bucket = 0; bucket < 2; ++bucket) {
        graph.nodes.at(bucket).label = fmt::format("step 1 parameter gather bucket {}", bucket);
      }
    }
  }

  SyntheticLegs legs_;
};

void nothing(const LegRequest&, LegRecord&) {}

TEST_F(ParameterGatherJudge, PassesLegsThatGatherOnceACallAndSaysWhatItHasNotLookedAt) {
  const CheckResult result = judge(layers(), nothing);
  expect(result, Verdict::pass, "2 buckets of all parameters");
  expect(result, Verdict::pass, "no reduce-scatter was looked at");
  expect(judge(iterations(), nothing), Verdict::pass, "in the graphs of iterations");
}

TEST_F(ParameterGatherJudge, NamesLayersWithoutABucketEvenWhereBothLegsLackIt) {
  const auto with_layers_of_last = [&](const std::vector<std::int32_t>& held) {
    return judge(layers(), [&](const LegRequest&, LegRecord& record) {
      for (GatherRecord& gather : record.gathers) {
        if (gather.bucket == 1) gather.layers = held;
      }
    });
  };
  expect(with_layers_of_last({-1}), Verdict::fail_coverage, "no bucket holds layer 1");
  expect(with_layers_of_last({}), Verdict::fail_coverage, "bucket 1 holds no parameters");
  expect(with_layers_of_last({1}), Verdict::fail_coverage,
         "buckets hold 1 parameters of what lies outside of layers, the leg steps 2");
  expect(with_layers_of_last({1, -1, 2}), Verdict::fail_coverage,
         "a bucket holds layer 2, which other stages have");
  const CheckResult none =
      judge(layers(), [](const LegRequest&, LegRecord& record) { record.gathers.clear(); });
  expect(none, Verdict::fail_coverage, "no bucket holds what lies outside of layers");
}

TEST_F(ParameterGatherJudge, NamesMissingGathersOfEitherLeg) {
  expect(judge_graph(layers(), [](LegRecord& record) { erase(record, 2, 1); }),
         Verdict::fail_stale_input, "step 2 gathers bucket 1 0 times, 1 are due");
  const CheckResult both =
      judge(layers(), [](const LegRequest&, LegRecord& record) { erase(record, 2, 1); });
  expect(both, Verdict::fail_stale_input, "eager leg: step 2 gathers bucket 1 0 times");
  const CheckResult validation = judge_graph(layers(), [](LegRecord& record) {
    record.gathers.erase(record.gathers.begin() + (&find(record, 1, 0) - record.gathers.data()));
  });
  expect(validation, Verdict::fail_stale_input, "step 1 gathers bucket 0 1 times, 2 are due");
}

TEST_F(ParameterGatherJudge, NamesGathersThatAreNotDue) {
  const auto again = [](LegRecord& record) { record.gathers.push_back(find(record, 2, 0)); };
  expect(judge_graph(layers(), again), Verdict::fail_coverage,
         "step 2 gathers bucket 0 2 times, 1 are due");
  const CheckResult first = judge(layers(), [](const LegRequest&, LegRecord& record) {
    record.gathers.push_back(record.gathers.front());
    record.gathers.back().step = 0;
  });
  expect(first, Verdict::fail_coverage, "step 0 gathers bucket 0 1 times, 0 are due");
  const CheckResult unknown = judge_graph(layers(), [](LegRecord& record) {
    record.gathers.push_back(record.gathers.front());
    record.gathers.back().bucket = 7;
  });
  expect(unknown, Verdict::fail_coverage, "a bucket 7 of other parameters");
}

TEST_F(ParameterGatherJudge, NamesLayersThatRunBeforeTheirBucketIsGathered) {
  const auto late = [](LegRecord& record) { find(record, 2, 1).executions_before += 2; };
  expect(judge_graph(layers(), late), Verdict::fail_stale_input,
         "step 2 micro-batch 0 runs layer 1 before bucket 1 is gathered");
  const auto in_training = [](LegRecord& record) {
    find(record, 1, 0).executions_before = record.gathers.front().executions_before;
  };
  expect(judge_graph(layers(), in_training), Verdict::fail_stale_input,
         "step 1 validation micro-batch 0 runs layer 0 before bucket 0 is gathered");
}

TEST_F(ParameterGatherJudge, HoldsGraphsOfIterationsAgainstTheirWarmUpAndCapture) {
  expect(judge_graph(iterations(), [](LegRecord& record) { erase(record, 0, 1); }),
         Verdict::fail_stale_input, "step 0 gathers bucket 1 0 times, 1 are due");
  const auto replay = [](LegRecord& record) {
    record.gathers.push_back(record.gathers.front());
    record.gathers.back().step = 2;
  };
  expect(judge_graph(iterations(), replay), Verdict::fail_coverage,
         "step 2 gathers bucket 0 1 times, 0 are due");
  const auto not_recorded = [](LegRecord& record) { find(record, 3, 1).captured = false; };
  expect(judge_graph(iterations(), not_recorded), Verdict::fail_coverage,
         "step 3 gathers bucket 1 1 times, 0 are due");
  const auto not_captured = [](LegRecord& record) { record.graphs.back().nodes.at(1).label = ""; };
  expect(judge_graph(iterations(), not_captured), Verdict::fail_stale_input,
         "does not gather bucket 1");
}

TEST_F(ParameterGatherJudge, NamesGathersInGraphsOfLayers) {
  const auto inside = [](LegRecord& record) {
    record.graphs.front().nodes.front().label = "parameter gather of layer 0";
  };
  expect(judge_graph(layers(), inside), Verdict::fail_capture, "the hook was on");
}

}  // namespace
}  // namespace cgconform::suites
