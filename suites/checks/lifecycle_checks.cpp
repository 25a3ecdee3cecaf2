#include <array>

#include "suites/checks/capture_audit.hpp"
#include "suites/checks/families.hpp"
#include "suites/checks/illegal_calls.hpp"
#include "suites/checks/leg_choice.hpp"

namespace cgconform::suites::checks {

std::span<const CheckDefinition> lifecycle_checks() {
  static constexpr std::array table{
      CheckDefinition{.id = "LIF-01",
                      .failure = Verdict::fail_capture,
                      .judges_partial_legs = true,
                      .applies = graph_cells,
                      .legs = graph_legs,
                      .judge = judge_capture_calls},
      CheckDefinition{.id = "LIF-02",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_capture,
                      .scenario = judge_capture_rules},
      CheckDefinition{.id = "LIF-10", .subject = CheckSubject::runner, .failure = Verdict::crash},
      CheckDefinition{.id = "LIF-17",
                      .failure = Verdict::fail_capture,
                      .applies = graph_cells,
                      .legs = graph_legs,
                      .judge = judge_capture_completeness},
      CheckDefinition{.id = "LIF-18", .subject = CheckSubject::runner, .failure = Verdict::crash},
  };
  return table;
}

}  // namespace cgconform::suites::checks
