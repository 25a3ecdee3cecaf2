#include <array>

#include "suites/checks/families.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/checks/schedule_audits.hpp"

namespace cgconform::suites::checks {

std::span<const CheckDefinition> schedule_checks() {
  static constexpr std::array table{
      CheckDefinition{.id = "CON-17",
                      .failure = Verdict::fail_coverage,
                      .judges_graphs = GraphsOf::layers,
                      .applies = cells_with_layer_graphs,
                      .legs = graph_legs,
                      .judge = judge_captured_microbatches},
      CheckDefinition{.id = "NUM-24",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = partly_graphed_cells,
                      .legs = compared_legs,
                      .judge = judge_partial_capture},
      CheckDefinition{.id = "MEM-06",
                      .failure = Verdict::fail_leak,
                      .judges_graphs = GraphsOf::layers,
                      .applies = cells_with_callables,
                      .legs = graph_legs,
                      .judge = judge_static_inputs},
      CheckDefinition{.id = "COM-07",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = captured_pipelines,
                      .legs = compared_legs,
                      .judge = judge_captured_transfers},
      CheckDefinition{.id = "COM-08",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = layer_graphs_in_pipelines,
                      .legs = compared_legs,
                      .judge = judge_eager_transfers},
      CheckDefinition{.id = "TLG-02",
                      .failure = Verdict::fail_nondeterminism,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = repeated_graph_legs,
                      .judge = judge_topology},
  };
  return table;
}

}  // namespace cgconform::suites::checks
