#include "suites/checks/restart_checks.hpp"

#include <fmt/format.h>

#include "suites/checks/difference_text.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/checks/state_checks.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::LegRequest;
using workloads::ObservedQuantity;

/// Enough for graphs that are captured early to have been replayed before the restart.
constexpr std::int32_t steps_before = 3;

LegRequest restarted_leg(const matrix::Cell& cell) {
  LegRequest leg = graph_leg();
  leg.restart_after = steps_before;
  leg.steps = steps_before + steps_to_replay(cell);
  return leg;
}

bool is_trajectory(ObservedQuantity quantity) {
  return quantity == ObservedQuantity::loss || quantity == ObservedQuantity::weight ||
         quantity == ObservedQuantity::training_state ||
         quantity == ObservedQuantity::optimizer_state || quantity == ObservedQuantity::rng_state;
}

}  // namespace

bool restarted_cells(const matrix::Cell& cell) {
  return graph_cells(cell) && cell.shape.optimizer == matrix::Optimizer::adam;
}

std::vector<LegRequest> restart_legs(const matrix::Cell& cell) {
  return {eager_leg_of(restarted_leg(cell).steps), restarted_leg(cell)};
}

CheckResult judge_restart(JudgeContext& context) {
  const LegRequest actual = restarted_leg(context.cell);
  const LegRequest expected = eager_leg_of(actual.steps);
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  for (const ObservationOutcome& outcome : context.legs.difference(expected, actual).outcomes) {
    if (!is_trajectory(outcome.quantity)) continue;
    if (outcome.differs()) {
      return {.verdict = Verdict::fail_numeric_mismatch,
              .detail = fmt::format("restarted after step {}: {}", steps_before - 1,
                                    describe_difference(outcome, expected, actual)),
              .divergence = divergence_of(outcome)};
    }
    ++(outcome.where.step < steps_before ? before : after);
  }
  if (before == 0 || after == 0 || context.legs.record(actual).graphs.empty()) {
    return {.verdict = Verdict::fail_coverage,
            .detail = fmt::format("{} tensors before the restart, {} after it, {} graphs", before,
                                  after, context.legs.record(actual).graphs.size())};
  }
  return {.detail =
              fmt::format("{} tensors after the restart are those of an unbroken run", after)};
}

}  // namespace cgconform::suites::checks
