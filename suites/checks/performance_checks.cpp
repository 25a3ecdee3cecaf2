#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "suites/checks/families.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/leg_set.hpp"
#include "suites/step_statistics.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::GraphRecord;
using workloads::GraphTimes;
using workloads::LegRecord;

/// What is missing or mixed up in the times of a graph; empty where nothing is.
std::optional<std::string> find_wrong_time(const GraphRecord& graph, bool timed) {
  const GraphTimes& times = graph.times;
  if (!(times.capture > 0.0)) return "no time of its capture";
  if (!(times.instantiate > 0.0)) return "no time of its instantiation";
  if (timed != (times.upload >= 0.0)) {
    return timed ? "no time of its upload" : "an upload where the first launch was to be cold";
  }
  if (times.launches.empty()) return "no time of its first launch";
  if (timed && times.launches.size() == 1) return "no time of a repeated launch";
  const bool negative = std::any_of(times.launches.begin(), times.launches.end(),
                                    [](double milliseconds) { return !(milliseconds >= 0.0); });
  if (negative) return "a launch that ended before it began";
  return std::nullopt;
}

/// What is wrong with the timed steps of a leg; empty where nothing is.
std::optional<std::string> find_wrong_steps(const workloads::LegRequest& request,
                                            const LegRecord& record) {
  if (record.steps.empty()) return "no timed step";
  for (const workloads::StepTimes& step : record.steps) {
    if (!(step.device >= 0.0) || !(step.host > 0.0)) {
      return fmt::format("step {} without a time", step.step);
    }
  }
  const bool replayed = std::any_of(record.steps.begin(), record.steps.end(),
                                    [](const auto& step) { return step.replayed; });
  const bool graphs = request.kind == workloads::LegKind::graph;
  if (replayed != graphs) return graphs ? "no step that replays" : "a step that replays";
  return std::nullopt;
}

std::vector<workloads::LegRequest> legs_with_times(const matrix::Cell& cell) {
  std::vector<workloads::LegRequest> legs = repeated_graph_legs(cell);
  legs.push_back(timed_eager_leg());
  return legs;
}

/// PRF-04: capture, instantiation, upload, first launch, first launch after an upload and repeated
/// launches have times of their own, and so have eager and replayed steps.
CheckResult judge_times_apart(JudgeContext& context) {
  std::size_t graphs = 0;
  for (const auto& request : repeated_graph_legs(context.cell)) {
    for (const GraphRecord& graph : context.legs.record(request).graphs) {
      if (auto wrong = find_wrong_time(graph, request.timed)) {
        return {
            .verdict = Verdict::fail_perf,
            .detail = fmt::format("{} leg: '{}' has {}", leg_name(request), graph.name, *wrong)};
      }
      ++graphs;
    }
  }
  if (graphs == 0) return {.verdict = Verdict::fail_coverage, .detail = "no graph was timed"};
  for (const auto& request : {timed_eager_leg(), timed_graph_leg()}) {
    if (auto wrong = find_wrong_steps(request, context.legs.record(request))) {
      return {.verdict = Verdict::fail_perf,
              .detail = fmt::format("{} leg: {}", leg_name(request), *wrong)};
    }
  }
  return {.detail =
              fmt::format("{} graphs have setup, first and repeated launches timed apart", graphs)};
}

/// PRF-07: every launch of the timed leg is timed, and what they computed equals eager.
CheckResult judge_timed_replays(JudgeContext& context) {
  const LegRecord& timed = context.legs.record(timed_graph_leg());
  std::size_t launches = 0;
  for (const GraphRecord& graph : timed.graphs) {
    launches += graph.times.launches.size();
    if (graph.times.launches.size() == graph.launches) continue;
    return {.verdict = Verdict::fail_perf,
            .detail = fmt::format("'{}' was launched {} times, {} launches were timed", graph.name,
                                  graph.launches, graph.times.launches.size())};
  }
  if (launches != timed.totals.graph_launches) {
    return {.verdict = Verdict::fail_perf,
            .detail = fmt::format("{} launches were timed, the device counted {}", launches,
                                  timed.totals.graph_launches)};
  }
  const LegDifference& difference = context.legs.difference(eager_leg(), timed_graph_leg());
  if (const ObservationOutcome* outcome = difference.first()) {
    return {.verdict = Verdict::fail_perf,
            .detail = fmt::format("the timed replays are not the validated ones: {} differs from "
                                  "eager",
                                  location_text(outcome->where)),
            .divergence = divergence_of(*outcome)};
  }
  if (launches == 0 || difference.outcomes.empty()) {
    return {.verdict = Verdict::fail_coverage, .detail = "nothing was timed or compared"};
  }
  return {.detail = fmt::format("{} timed replays are validated by {} tensors", launches,
                                difference.outcomes.size())};
}

std::vector<workloads::LegRequest> timed_legs(const matrix::Cell& /*cell*/) {
  return {eager_leg(), timed_graph_leg()};
}

}  // namespace

std::span<const CheckDefinition> performance_checks() {
  static constexpr std::array table{
      CheckDefinition{.id = "PRF-04",
                      .failure = Verdict::fail_perf,
                      .judges_graphs = GraphsOf::layers,
                      .applies = graph_cells,
                      .legs = legs_with_times,
                      .judge = judge_times_apart},
      CheckDefinition{.id = "PRF-07",
                      .failure = Verdict::fail_perf,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = timed_legs,
                      .judge = judge_timed_replays},
  };
  return table;
}

}  // namespace cgconform::suites::checks
