#include <array>

#include "suites/checks/capture_audit.hpp"
#include "suites/checks/capture_recovery.hpp"
#include "suites/checks/communicator_ends.hpp"
#include "suites/checks/destroy_scenarios.hpp"
#include "suites/checks/early_return.hpp"
#include "suites/checks/families.hpp"
#include "suites/checks/illegal_calls.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/checks/teardown_audit.hpp"

namespace cgconform::suites::checks {

std::span<const CheckDefinition> lifecycle_checks() {
  static constexpr std::array table{
      CheckDefinition{.id = "LIF-01",
                      .failure = Verdict::fail_capture,
                      .judges_partial_legs = true,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = graph_legs,
                      .judge = judge_capture_calls},
      CheckDefinition{.id = "LIF-02",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_capture,
                      .scenario = judge_capture_rules},
      CheckDefinition{.id = "LIF-03",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_recovery,
                      .scenario = judge_capture_recovery},
      CheckDefinition{.id = "LIF-05",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_recovery,
                      .scenario = judge_recapture},
      CheckDefinition{.id = "LIF-07",
                      .failure = Verdict::fail_teardown,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = graph_legs,
                      .judge = judge_teardown,
                      .scenario = judge_destroy_orders},
      CheckDefinition{.id = "LIF-08",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_teardown,
                      .scenario = judge_communicator_ends},
      CheckDefinition{.id = "LIF-10",
                      .subject = CheckSubject::runner,
                      .failure = Verdict::crash,
                      .scenario = judge_early_return},
      CheckDefinition{.id = "LIF-11",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_leak,
                      .scenario = judge_never_launched},
      CheckDefinition{.id = "LIF-17",
                      .failure = Verdict::fail_capture,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = graph_legs,
                      .judge = judge_capture_completeness},
      CheckDefinition{.id = "LIF-18", .subject = CheckSubject::runner, .failure = Verdict::crash},
  };
  return table;
}

}  // namespace cgconform::suites::checks
