#include <array>

#include <fmt/format.h>

#include "suites/checks/families.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/checks/order_scenarios.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::EdgeFinding;
using workloads::LegRecord;

/// CCY-02: pairs of nodes that touch the same bytes without a path between them.
CheckResult judge_edges(JudgeContext& context) {
  std::size_t nodes = 0;
  for (const auto& request : graph_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    if (!record.edge_findings.empty()) {
      const EdgeFinding& finding = record.edge_findings.front();
      const auto index = static_cast<std::size_t>(finding.graph);
      const bool named = finding.graph >= 0 && index < record.graphs.size();
      return {.verdict = Verdict::fail_missing_edge,
              .detail = fmt::format("graph '{}': no path joins node {} and node {} over {}: {}",
                                    named ? record.graphs[index].name : "unknown", finding.producer,
                                    finding.consumer, finding.operand, finding.labels)};
    }
    for (const auto& graph : record.graphs) nodes += graph.nodes.size();
  }
  if (nodes == 0) return {.verdict = Verdict::fail_coverage, .detail = "no graph has a node"};
  return {.detail = fmt::format("{} nodes are ordered where they touch the same bytes", nodes)};
}

}  // namespace

std::span<const CheckDefinition> concurrency_checks() {
  static constexpr std::array table{
      CheckDefinition{.id = "CCY-01",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_missing_edge,
                      .scenario = judge_fork_and_join},
      CheckDefinition{.id = "CCY-02",
                      .failure = Verdict::fail_missing_edge,
                      .judges_partial_legs = true,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = graph_legs,
                      .judge = judge_edges},
      CheckDefinition{.id = "CCY-03",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_missing_edge,
                      .scenario = judge_order_across_graphs},
  };
  return table;
}

}  // namespace cgconform::suites::checks
