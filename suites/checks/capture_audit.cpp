#include "suites/checks/capture_audit.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "suites/checks/leg_choice.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::CaptureAudit;
using workloads::error_category_name;
using workloads::ErrorCategory;
using workloads::GraphRecord;
using workloads::LegRecord;
using workloads::NodeKind;

CheckResult fail(Verdict verdict, const std::string& leg, std::string detail) {
  return {.verdict = verdict, .detail = fmt::format("{} leg: {}", leg, detail)};
}

/// Nodes that do work; empty nodes only join branches.
std::uint64_t work_nodes(const GraphRecord& graph) {
  return static_cast<std::uint64_t>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(),
                    [](const workloads::GraphNode& node) { return node.kind != NodeKind::empty; }));
}

std::optional<std::string> find_work_at_capture(const CaptureAudit& audit) {
  if (audit.eager_launches_inside != 0 || audit.graph_nodes_run_inside != 0) {
    return fmt::format("'{}' ran {} launches and {} graph nodes while it was captured", audit.graph,
                       audit.eager_launches_inside, audit.graph_nodes_run_inside);
  }
  if (audit.nodes_ran_inside) {
    return fmt::format("nodes of '{}' ran while it was captured: one of them left its result",
                       audit.graph);
  }
  if (audit.hash_before != audit.hash_after) {
    return fmt::format(
        "capturing '{}' changed the training state: hash {:016x} before, {:016x} "
        "after",
        audit.graph, audit.hash_before, audit.hash_after);
  }
  return std::nullopt;
}

/// A body that never ran eagerly has no count to hold its graph against; what it computes is
/// compared with eager all the same.
std::optional<std::string> find_missing_node(const CaptureAudit& audit, const GraphRecord& graph,
                                             bool ran_before) {
  const std::uint64_t nodes = work_nodes(graph);
  if (nodes == 0) return fmt::format("'{}' has no node that does work", graph.name);
  if (ran_before && audit.eager_body_launches != nodes) {
    return fmt::format("'{}' has {} nodes of work, its body launches {} eagerly", graph.name, nodes,
                       audit.eager_body_launches);
  }
  return std::nullopt;
}

/// What replays ran, by the device's own count, against the nodes of what was launched.
std::optional<std::string> find_missing_run(const LegRecord& record) {
  std::uint64_t expected_runs = 0;
  for (const GraphRecord& graph : record.graphs)
    expected_runs += graph.launches * work_nodes(graph);
  if (record.totals.graph_nodes_run != expected_runs) {
    return fmt::format("graphs were launched with {} nodes of work in all, {} nodes ran",
                       expected_runs, record.totals.graph_nodes_run);
  }
  return std::nullopt;
}

}  // namespace

CheckResult judge_capture_calls(JudgeContext& context) {
  std::uint64_t calls = 0;
  for (const auto& request : graph_legs(context.cell)) {
    const LegState& state = context.legs.state(request);
    if (!state.ran) continue;
    const std::string leg = leg_name(request);
    for (const CaptureAudit& audit : state.record().captures) {
      if (audit.first_failure != ErrorCategory::success) {
        return fail(Verdict::fail_capture, leg,
                    fmt::format("'{}': {} failed with {} ({})", audit.graph,
                                audit.first_failed_call, error_category_name(audit.first_failure),
                                static_cast<int>(audit.first_failure)));
      }
      if (audit.end_status != ErrorCategory::success) {
        return fail(
            Verdict::fail_capture, leg,
            fmt::format("'{}': the end of capture gave {} ({})", audit.graph,
                        error_category_name(audit.end_status), static_cast<int>(audit.end_status)));
      }
      if (audit.pageable_uploads != 0) {
        return fail(Verdict::fail_capture, leg,
                    fmt::format("'{}': {} in phase capture: the copy reads pageable host memory at "
                                "every replay; stage it through pinned memory",
                                audit.graph, workloads::pageable_upload_call));
      }
      if (audit.calls == 0) {
        return fail(Verdict::fail_capture, leg,
                    fmt::format("'{}': no call of the window was audited", audit.graph));
      }
      calls += audit.calls;
    }
    if (state.record().captures.size() < state.record().graphs.size()) {
      return fail(Verdict::fail_capture, leg,
                  fmt::format("{} graphs, {} audited captures", state.record().graphs.size(),
                              state.record().captures.size()));
    }
  }
  if (calls == 0) return {.verdict = Verdict::fail_coverage, .detail = "nothing was captured"};
  return {.detail = fmt::format("{} calls in capture windows succeeded", calls)};
}

CheckResult judge_capture_completeness(JudgeContext& context) {
  std::size_t graphs = 0;
  for (const auto& request : graph_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    const std::string leg = leg_name(request);
    for (const CaptureAudit& audit : record.captures) {
      if (auto ran = find_work_at_capture(audit)) return fail(Verdict::fail_capture, leg, *ran);
      const auto graph =
          std::find_if(record.graphs.begin(), record.graphs.end(),
                       [&](const GraphRecord& candidate) { return candidate.name == audit.graph; });
      if (graph == record.graphs.end()) {
        return fail(Verdict::fail_coverage, leg,
                    fmt::format("capture '{}' left no graph", audit.graph));
      }
      if (auto missing =
              find_missing_node(audit, *graph, runs_before_capture(context.cell, graph->scope))) {
        return fail(Verdict::fail_coverage, leg, *missing);
      }
      ++graphs;
    }
    if (auto missing = find_missing_run(record)) {
      return fail(Verdict::fail_coverage, leg, *missing);
    }
  }
  if (graphs == 0) return {.verdict = Verdict::fail_coverage, .detail = "nothing was captured"};
  return {.detail = fmt::format("{} graphs are complete and ran nothing at capture", graphs)};
}

}  // namespace cgconform::suites::checks
