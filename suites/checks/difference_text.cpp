#include "suites/checks/difference_text.hpp"

#include <fmt/format.h>

namespace cgconform::suites::checks {

using workloads::LegRequest;

std::string describe_difference(const ObservationOutcome& outcome, const LegRequest& expected,
                                const LegRequest& actual) {
  if (outcome.missing_in_actual) {
    return fmt::format("the {} leg has no {}", leg_name(actual), location_text(outcome.where));
  }
  if (outcome.missing_in_expected) {
    return fmt::format("the {} leg has no {}", leg_name(expected), location_text(outcome.where));
  }
  const Comparison& comparison = outcome.comparison;
  return fmt::format(
      "{}: {} of {} elements of the {} leg differ from the {} leg, first at {}: {} "
      "expected, {} seen",
      location_text(outcome.where), comparison.bad_count, comparison.element_count,
      leg_name(actual), leg_name(expected), comparison.first_bad_index, comparison.expected,
      comparison.actual);
}

}  // namespace cgconform::suites::checks
