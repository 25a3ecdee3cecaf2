#include "suites/checks/leg_equality.hpp"

#include <cstdint>

#include <fmt/format.h>

#include "suites/checks/leg_choice.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
CheckResult failed_leg(Verdict verdict, const workloads::LegRequest& leg, std::string_view what) {
  return {.verdict = verdict, .detail = fmt::format("{} leg: {}", leg_name(leg), what)};
}

CheckResult judge_equality(JudgeContext& context, std::string_view how) {
  std::uint64_t compared = 0;
  for (const auto& [expected, actual] : compared_pairs(context.cell)) {
    const LegDifference& difference = context.legs.difference(expected, actual);
    if (const ObservationOutcome* first = difference.first()) {
      CheckResult result = failed_leg(Verdict::fail_numeric_mismatch, actual,
                                      fmt::format("{} is not that of the {} leg",
                                                  location_text(first->where), leg_name(expected)));
      result.divergence = divergence_of(*first);
      return result;
    }
    compared += difference.outcomes.size();
  }
  if (compared == 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "no tensor was compared"};
  }
  return {.detail = fmt::format("{} tensors equal eager, {}", compared, how)};
}

}  // namespace cgconform::suites::checks
