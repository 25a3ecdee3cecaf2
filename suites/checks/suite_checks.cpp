#include <array>

#include "suites/checks/expansion_audit.hpp"
#include "suites/checks/families.hpp"
#include "suites/checks/selection_checks.hpp"

namespace cgconform::suites::checks {

std::span<const CheckDefinition> suite_checks() {
  static constexpr std::array table{
      CheckDefinition{
          .id = "SUI-01", .subject = CheckSubject::runner, .failure = Verdict::fail_suite},
      CheckDefinition{
          .id = "SUI-02", .subject = CheckSubject::runner, .failure = Verdict::fail_coverage},
      CheckDefinition{.id = "SUI-03",
                      .subject = CheckSubject::run_scenario,
                      .failure = Verdict::fail_suite,
                      .scenario = judge_expansion},
      CheckDefinition{
          .id = "SUI-04", .subject = CheckSubject::runner, .failure = Verdict::fail_suite},
      CheckDefinition{.id = "SUI-05", .subject = CheckSubject::runner, .failure = Verdict::hang},
      CheckDefinition{
          .id = "SUI-06", .subject = CheckSubject::runner, .failure = Verdict::fail_suite},
      CheckDefinition{.id = "SUI-07",
                      .subject = CheckSubject::run_scenario,
                      .failure = Verdict::fail_suite,
                      .scenario = judge_selection},
      CheckDefinition{.id = "SUI-08",
                      .subject = CheckSubject::run_scenario,
                      .failure = Verdict::fail_suite,
                      .scenario = judge_empty_selection},
      CheckDefinition{.id = "SUI-09", .subject = CheckSubject::runner, .failure = Verdict::flaky},
      CheckDefinition{
          .id = "SUI-10", .subject = CheckSubject::runner, .failure = Verdict::fail_suite},
  };
  return table;
}

}  // namespace cgconform::suites::checks
