#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "suites/checks/families.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/dot_summary.hpp"
#include "suites/leg_set.hpp"
#include "suites/recompute_plan.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::ExecutionRecord;
using workloads::GraphRecord;
using workloads::LegRecord;

/// Label of a node that computes something again.
constexpr std::string_view recompute_label = " recompute ";

bool has_recompute_node(const GraphRecord& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return node.label.find(recompute_label) != std::string::npos;
  });
}

/// Copies of inputs and gradients into the static slots of a graph, which a replay may launch.
constexpr std::uint64_t copies_before_replay = 2;

std::optional<std::string> audit_graphs(const matrix::Cell& cell, int rank,
                                        const CoveragePlan& plan, const LegRecord& record) {
  if (record.graphs.size() != plan.graphs.size()) {
    return fmt::format("{} graphs planned, {} captured", plan.graphs.size(), record.graphs.size());
  }
  for (std::size_t i = 0; i < plan.graphs.size(); ++i) {
    const PlannedGraph& planned = plan.graphs[i];
    const GraphRecord& graph = record.graphs[i];
    const bool is_planned = graph.layer == planned.layer &&
                            graph.microbatch == planned.microbatch &&
                            graph.forward == planned.forward && graph.wgrad == planned.wgrad &&
                            (graph.scope == optimizer_scope) == planned.optimizer;
    if (!is_planned) {
      return fmt::format("capture {}: planned layer {} micro-batch {} {}, captured '{}'", i,
                         planned.layer, planned.microbatch,
                         workloads::pass_name(planned.forward, planned.wgrad), graph.name);
    }
    if (has_recompute_node(graph) != graph_recomputes(cell, planned, rank)) {
      return fmt::format("'{}': {}", graph.name,
                         has_recompute_node(graph) ? "recomputes although its layers do not there"
                                                   : "recompute planned, no node recomputes");
    }
    if (graph.capture_step != planned.capture_step) {
      return fmt::format("'{}': capture planned in step {}, captured in step {}", graph.name,
                         planned.capture_step, graph.capture_step);
    }
    if (graph.launches != planned.launches) {
      return fmt::format("'{}': {} launches planned, the device counted {}", graph.name,
                         planned.launches, graph.launches);
    }
  }
  return std::nullopt;
}

/// What the device counted and how often host code ran, against a replay or an eager execution.
std::optional<std::string> audit_counters(const ExecutionRecord& record, const LegRecord& leg) {
  if (!record.replayed) {
    if (record.graph_launches != 0) return "ran eagerly, yet a graph was launched";
    if (record.host_executions == 0) return "ran eagerly, yet its host code did not run";
    if (record.eager_launches == 0) return "ran eagerly, yet launched nothing";
    return std::nullopt;
  }
  if (record.graph_launches != 1) {
    return fmt::format("replayed, yet the device counted {} graph launches", record.graph_launches);
  }
  if (record.host_executions != 0) {
    return fmt::format("replayed, yet its host code ran {} times", record.host_executions);
  }
  if (record.eager_launches > copies_before_replay) {
    return fmt::format("replayed, yet {} launches ran outside the graph", record.eager_launches);
  }
  const std::size_t nodes = leg.graphs.at(static_cast<std::size_t>(record.graph)).nodes.size();
  if (record.graph_nodes_run > nodes) {
    return fmt::format("the graph has {} nodes, {} ran", nodes, record.graph_nodes_run);
  }
  return std::nullopt;
}

std::optional<std::string> audit_executions(const CoveragePlan& plan, const LegRecord& leg) {
  const std::size_t common = std::min(plan.executions.size(), leg.executions.size());
  for (std::size_t i = 0; i < common; ++i) {
    const PlannedExecution& planned = plan.executions[i];
    const ExecutionRecord& record = leg.executions[i];
    const PlannedExecution seen{.step = record.step,
                                .microbatch = record.microbatch,
                                .layer = record.layer,
                                .forward = record.forward,
                                .wgrad = record.wgrad,
                                .validation = record.validation,
                                .replayed = record.replayed,
                                .graph = record.replayed ? record.graph : -1,
                                .scope = record.scope};
    if (seen != planned) {
      const auto how = [](const PlannedExecution& execution) {
        return execution.replayed ? fmt::format("replay of graph {}", execution.graph)
                                  : std::string("eager execution");
      };
      return fmt::format("execution {}: planned {} of {}, seen {} of {}", i, how(planned),
                         execution_text(planned), how(seen), execution_text(seen));
    }
    if (auto wrong = audit_counters(record, leg)) {
      return fmt::format("{}: {}", execution_text(planned), *wrong);
    }
  }
  if (plan.executions.size() != leg.executions.size()) {
    return fmt::format("{} executions planned, {} seen", plan.executions.size(),
                       leg.executions.size());
  }
  return std::nullopt;
}

std::optional<std::string> audit_totals(const CoveragePlan& plan, const LegRecord& leg) {
  std::uint64_t launches = 0;
  for (const PlannedGraph& graph : plan.graphs) launches += graph.launches;
  if (leg.totals.graph_launches != launches) {
    return fmt::format("{} graph launches planned, the device counted {}", launches,
                       leg.totals.graph_launches);
  }
  return std::nullopt;
}

/// TLG-01: the dump of every graph parses and holds as many nodes and edges as the device counts.
CheckResult judge_dumps(JudgeContext& context) {
  workloads::GraphSize total;
  const LegRecord& record = context.legs.record(instrumented_graph_leg());
  for (const GraphRecord& graph : record.graphs) {
    const workloads::GraphSize dumped = dot_size(graph.dot);
    if (dumped != graph.size || graph.size.nodes == 0) {
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format("'{}': {} nodes and {} edges in the dump, the device counts {} "
                                    "and {}",
                                    graph.name, dumped.nodes, dumped.edges, graph.size.nodes,
                                    graph.size.edges)};
    }
    total.nodes += dumped.nodes;
    total.edges += dumped.edges;
  }
  if (total.nodes == 0) return {.verdict = Verdict::fail_coverage, .detail = "no graph was dumped"};
  return {.detail = fmt::format("{} dumps hold the {} nodes and {} edges the device counts",
                                record.graphs.size(), total.nodes, total.edges)};
}

std::vector<workloads::LegRequest> dumped_legs(const matrix::Cell& /*cell*/) {
  return {instrumented_graph_leg()};
}

/// TLG-03: what the configuration asks for against what the leg and the device counted.
CheckResult judge_coverage(JudgeContext& context) {
  const CoveragePlan plan = plan_coverage(context.cell, context.rank);
  for (const auto& request : graph_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    auto wrong = audit_graphs(context.cell, context.rank, plan, record);
    if (!wrong) wrong = audit_executions(plan, record);
    if (!wrong) wrong = audit_totals(plan, record);
    if (wrong) {
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format("{} leg: {}", leg_name(request), *wrong)};
    }
  }
  if (plan.graphs.empty() && !captures_elsewhere_only(context.cell, context.rank)) {
    return {.verdict = Verdict::fail_coverage, .detail = "the configuration captures nothing"};
  }
  return {.detail = fmt::format("{} graphs and {} executions as planned", plan.graphs.size(),
                                plan.executions.size())};
}

}  // namespace

std::span<const CheckDefinition> tooling_checks() {
  static constexpr std::array table{
      CheckDefinition{.id = "TLG-01",
                      .failure = Verdict::fail_coverage,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = dumped_legs,
                      .judge = judge_dumps},
      CheckDefinition{.id = "TLG-03",
                      .failure = Verdict::fail_coverage,
                      .applies = graph_cells,
                      .legs = graph_legs,
                      .judge = judge_coverage},
  };
  return table;
}

}  // namespace cgconform::suites::checks
