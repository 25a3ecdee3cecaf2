#include <array>

#include "suites/checks/communicator_scenarios.hpp"
#include "suites/checks/families.hpp"
#include "suites/checks/launch_agreement.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/checks/parameter_gathers.hpp"

namespace cgconform::suites::checks {

std::span<const CheckDefinition> communication_checks() {
  static constexpr std::array table{
      CheckDefinition{.id = "COM-05",
                      .subject = CheckSubject::gang_scenario,
                      .failure = Verdict::fail_missing_edge,
                      .scenario = judge_order_on_one_communicator},
      CheckDefinition{.id = "COM-09",
                      .failure = Verdict::fail_comm_nonuniform,
                      .applies = graph_gangs,
                      .legs = graph_legs,
                      .judge = judge_launch_agreement},
      CheckDefinition{.id = "COM-11",
                      .subject = CheckSubject::gang_scenario,
                      .failure = Verdict::fail_comm_order,
                      .scenario = judge_opposite_order},
      CheckDefinition{.id = "COM-12",
                      .subject = CheckSubject::gang_scenario,
                      .failure = Verdict::fail_comm_nonuniform,
                      .scenario = judge_eager_and_graph_in_turn},
      CheckDefinition{.id = "COM-22",
                      .failure = Verdict::crash,
                      .applies = graph_gangs,
                      .legs = graph_legs,
                      .judge = judge_async_errors},
      CheckDefinition{.id = "COM-24", .subject = CheckSubject::runner, .failure = Verdict::crash},
      CheckDefinition{.id = "COM-30",
                      .failure = Verdict::fail_stale_input,
                      .applies = graph_cells_that_gather,
                      .legs = compared_legs,
                      .judge = judge_parameter_gathers},
  };
  return table;
}

}  // namespace cgconform::suites::checks
