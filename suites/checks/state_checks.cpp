#include "suites/checks/state_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "suites/checks/difference_text.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::CaptureAudit;
using workloads::LegRequest;
using workloads::ObservedQuantity;
using workloads::TensorLocation;

constexpr std::array<std::int32_t, 4> warmups{0, 1, 3, 11};

/// Steps after which every training graph has been replayed.
std::int32_t steps_with(const matrix::Cell& cell, std::int32_t warmup) {
  matrix::Cell varied = cell;
  varied.config.cuda_graph_warmup_steps = warmup;
  varied.shape.steps = 1;
  varied.shape.eval_interval = 0;
  return planned_steps(varied);
}

LegRequest longest_eager(const matrix::Cell& cell) {
  return eager_leg_of(steps_with(cell, warmups.back()));
}

constexpr std::int32_t replays_of_graphed_training = 20;

std::int32_t graphed_training_steps(const matrix::Cell& cell) {
  return steps_of_full_batches(
      cell, std::max(cell.config.cuda_graph_warmup_steps, 0) + replays_of_graphed_training);
}

LegRequest long_graph_leg(const matrix::Cell& cell) {
  LegRequest leg = graph_leg();
  leg.steps = graphed_training_steps(cell);
  return leg;
}

bool is_among(ObservedQuantity quantity, std::initializer_list<ObservedQuantity> quantities) {
  return std::find(quantities.begin(), quantities.end(), quantity) != quantities.end();
}

/// What advances from step to step without being a result of the model.
constexpr std::initializer_list<ObservedQuantity> advancing{
    ObservedQuantity::training_state, ObservedQuantity::optimizer_state, ObservedQuantity::weight};

/// True where the graph leg left the tensor as the step before had left it, which a frozen value
/// does not explain.
bool is_not_updated(JudgeContext& context, const LegRequest& leg, const TensorLocation& where) {
  const auto& observations = context.legs.record(leg).observations;
  std::optional<std::size_t> before;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const TensorLocation& seen = observations[i].where;
    if (observations[i].quantity != ObservedQuantity::weight || seen.tensor != where.tensor ||
        seen.layer != where.layer || seen.step > where.step) {
      continue;
    }
    if (seen.step == where.step) {
      if (!before) return false;
      const std::pair<std::size_t, std::size_t> pair{*before, i};
      return context.legs.compare_within(leg, std::span(&pair, 1)).front().equal();
    }
    before = i;
  }
  return false;
}

bool is_trajectory(ObservedQuantity quantity) {
  return quantity == ObservedQuantity::loss || quantity == ObservedQuantity::weight;
}

}  // namespace

std::int32_t steps_to_replay(const matrix::Cell& cell) {
  return steps_with(cell, cell.config.cuda_graph_warmup_steps);
}

std::vector<LegRequest> warmup_legs(const matrix::Cell& cell) {
  std::vector<LegRequest> legs{longest_eager(cell)};
  for (const std::int32_t warmup : warmups) {
    legs.push_back(graph_leg_of(steps_with(cell, warmup), warmup));
  }
  return legs;
}

CheckResult judge_state_over_capture(JudgeContext& context) {
  const auto& captures = context.legs.record(instrumented_graph_leg()).captures;
  if (captures.empty()) {
    return {.verdict = Verdict::fail_coverage, .detail = "nothing was captured"};
  }
  for (const CaptureAudit& audit : captures) {
    if (audit.hash_before == 0 || audit.hash_after == 0) {
      return {.verdict = Verdict::fail_coverage,
              .detail =
                  fmt::format("the state around the capture of '{}' was not hashed", audit.graph)};
    }
    if (audit.hash_before == audit.hash_after) continue;
    return {.verdict = Verdict::fail_capture,
            .detail = fmt::format("warm-up and capture of '{}' changed {}: hash {:016x} before, "
                                  "{:016x} after",
                                  audit.graph, audit.changed, audit.hash_before, audit.hash_after)};
  }
  return {.detail = fmt::format("{} captures left the training state as it was", captures.size())};
}

CheckResult judge_warmups(JudgeContext& context) {
  const LegRequest expected = longest_eager(context.cell);
  std::uint64_t compared = 0;
  for (const std::int32_t warmup : warmups) {
    const std::int32_t steps = steps_with(context.cell, warmup);
    const LegRequest actual = graph_leg_of(steps, warmup);
    for (const ObservationOutcome& outcome : context.legs.difference(expected, actual).outcomes) {
      if (!is_trajectory(outcome.quantity) || outcome.where.step >= steps) continue;
      if (outcome.differs()) {
        return {.verdict = outcome.missing_in_actual || outcome.missing_in_expected
                               ? Verdict::fail_coverage
                               : Verdict::fail_numeric_mismatch,
                .detail = describe_difference(outcome, expected, actual),
                .divergence = divergence_of(outcome)};
      }
      ++compared;
    }
  }
  if (compared == 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "no loss or weight was observed"};
  }
  return {.detail =
              fmt::format("{} losses and weights are equal for warm-up 0, 1, 3 and 11", compared)};
}

bool cells_with_graphed_training(const matrix::Cell& cell) {
  return captures_whole_step(cell) || (captures_optimizer(cell) && captures_iterations(cell));
}

std::vector<LegRequest> graphed_training_legs(const matrix::Cell& cell) {
  return {eager_leg_of(graphed_training_steps(cell)), long_graph_leg(cell)};
}

CheckResult judge_advancing_state(JudgeContext& context) {
  std::uint64_t compared = 0;
  for (const auto& [expected, actual] : compared_pairs(context.cell)) {
    const LegDifference& difference = context.legs.difference(expected, actual);
    const ObservationOutcome* first = difference.first();
    if (first == nullptr || !is_among(first->quantity, advancing)) {
      // Where something of the model differs first, what follows is its consequence.
      compared += difference.compared(advancing);
      continue;
    }
    CheckResult result{.verdict = Verdict::fail_state_frozen,
                       .detail = describe_difference(*first, expected, actual),
                       .divergence = divergence_of(*first)};
    const bool by_optimizer = first->quantity != ObservedQuantity::training_state;
    if (first->missing_in_actual || first->missing_in_expected ||
        (first->quantity == ObservedQuantity::weight &&
         is_not_updated(context, actual, first->where))) {
      result.verdict = Verdict::fail_coverage;
    } else if (by_optimizer && !captures_optimizer(context.cell) &&
               !captures_whole_step(context.cell)) {
      result.verdict = Verdict::fail_numeric_mismatch;
    }
    return result;
  }
  if (compared == 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "no advancing state was observed"};
  }
  return {.detail = fmt::format("{} weights, rates and counters advance as in eager", compared)};
}

CheckResult judge_graphed_training(JudgeContext& context) {
  const LegRequest expected = eager_leg_of(graphed_training_steps(context.cell));
  const LegRequest actual = long_graph_leg(context.cell);
  std::size_t long_running = 0;
  for (const auto& graph : context.legs.record(actual).graphs) {
    if (graph.launches >= replays_of_graphed_training) ++long_running;
  }
  const std::size_t iteration_and_optimizer = captures_whole_step(context.cell) ? 1 : 2;
  if (long_running < iteration_and_optimizer) {
    return {.verdict = Verdict::fail_coverage,
            .detail = fmt::format("{} graphs were launched {} times or more, not iteration and "
                                  "optimizer",
                                  long_running, replays_of_graphed_training)};
  }
  const LegDifference& difference = context.legs.difference(expected, actual);
  if (const ObservationOutcome* first = difference.first()) {
    return {.verdict = Verdict::fail_numeric_mismatch,
            .detail = describe_difference(*first, expected, actual),
            .divergence = divergence_of(*first)};
  }
  return {.detail = fmt::format("{} tensors equal eager's over {} replays of iteration and "
                                "optimizer",
                                difference.outcomes.size(), replays_of_graphed_training)};
}

}  // namespace cgconform::suites::checks
