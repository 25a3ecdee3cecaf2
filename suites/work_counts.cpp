#include "suites/work_counts.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "suites/cell_plan.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/memory_measurements.hpp"
#include "suites/step_statistics.hpp"

namespace cgconform::suites {

namespace {

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return 0.0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Times of a rank's graphs, each kind apart: sums of what is done once a graph, the mean of
/// repeated launches.
void note_times(const workloads::LegRequest& request, const workloads::LegRecord& record,
                std::map<std::string, double>& measurements) {
  std::vector<double> repeated;
  const char* first_launch = request.timed ? "first launches after upload ms" : "first launches ms";
  for (const workloads::GraphRecord& graph : record.graphs) {
    const workloads::GraphTimes& times = graph.times;
    if (!times.launches.empty()) {
      measurements[first_launch] += times.launches.front();
      repeated.insert(repeated.end(), times.launches.begin() + 1, times.launches.end());
    }
    if (!request.timed) continue;
    measurements["captures ms"] += times.capture;
    measurements["instantiations ms"] += times.instantiate;
    measurements["uploads ms"] += times.upload;
  }
  if (!request.timed) return;
  measurements["mean repeated launch ms"] = mean_of(repeated);
  measurements["timed repeated launches"] = static_cast<double>(repeated.size());
}

/// Graphs that one training step launched for its iteration, the most of all steps.
double parts_of_an_iteration(const workloads::LegRecord& record) {
  std::map<std::int32_t, std::int64_t> parts;
  std::int64_t most = 0;
  for (const workloads::ExecutionRecord& execution : record.executions) {
    const bool part = execution.replayed && !execution.validation && execution.layer < 0 &&
                      execution.scope.empty();
    if (part) most = std::max(most, ++parts[execution.step]);
  }
  return static_cast<double>(most);
}

}  // namespace

void count_work(const matrix::Cell& cell, const LegSet& legs,
                const ControlledComparator& comparator, RankReport& report) {
  for (const auto& [request, state] : legs.all()) {
    const workloads::LegRecord& record = state.record();
    if (!state.leg.from.empty()) {
      report.shared_legs[leg_name(request)] = state.leg.from;
      continue;
    }
    for (const workloads::PhaseTiming& timing : record.timings) {
      report.phase_milliseconds[std::string(workloads::phase_name(timing.phase))] +=
          timing.milliseconds;
    }
    if (request.kind != workloads::LegKind::graph) continue;
    report.captures += record.graphs.size();
    for (const workloads::CycleRecord& cycle : record.cycles) report.captures += cycle.captures;
    report.replays += record.totals.graph_launches;
    if (request == graph_leg() || request == timed_graph_leg()) {
      note_times(request, record, report.measurements);
    }
    if (request != graph_leg()) continue;
    if (record.agreements.slowest_milliseconds > 0.0) {
      report.measurements["slowest launch agreement ms"] = record.agreements.slowest_milliseconds;
    }
    if (cell.shape.capture_form == matrix::CaptureForm::partitioned) {
      report.measurements["parts of an iteration"] = parts_of_an_iteration(record);
    }
    report.measurements["graphs"] = static_cast<double>(record.graphs.size());
    report.measurements["graph nodes run"] = static_cast<double>(record.totals.graph_nodes_run);
  }
  measure_memory(legs, report);
  measure_steps(legs, report);
  report.comparisons = comparator.comparisons();
  if (!is_graph_cell(cell)) return;
  report.measurements["comparator controls"] = static_cast<double>(comparator.controls());
}

CheckResult judge_work(const matrix::Cell& cell, const LegSet& legs, const RankReport& report) {
  CheckResult result{.check_id = "SUI-02"};
  result.detail = fmt::format("{} captures, {} replays, {} comparisons", report.captures,
                              report.replays, report.comparisons);
  const auto fail = [&](std::string_view nothing) {
    result.verdict = Verdict::fail_coverage;
    result.detail = fmt::format("{}: {}", nothing, result.detail);
    return result;
  };
  if (report.comparisons == 0) return fail("nothing was compared");
  const bool without_graphs = captures_elsewhere_only(cell, report.rank);
  if (without_graphs && (report.captures != 0 || report.replays != 0)) {
    return fail("the rank's stage has no layer in the scope of graphs");
  }
  bool graph_leg_seen = false;
  for (const auto& [request, state] : legs.all()) {
    if (request.kind != workloads::LegKind::graph || !state.ran) continue;
    graph_leg_seen = true;
    if (without_graphs) continue;
    const std::string name = leg_name(request);
    const bool in_cycles =
        std::any_of(state.record().cycles.begin(), state.record().cycles.end(),
                    [](const workloads::CycleRecord& cycle) { return cycle.captures > 0; });
    if (state.record().graphs.empty() && !in_cycles)
      return fail(fmt::format("the {} leg captured nothing", name));
    if (state.record().totals.graph_launches == 0) {
      return fail(fmt::format("the {} leg replayed nothing", name));
    }
  }
  if (is_graph_cell(cell) && !graph_leg_seen) return fail("no graph leg was run");
  return result;
}

}  // namespace cgconform::suites
