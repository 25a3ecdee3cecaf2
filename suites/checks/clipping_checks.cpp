#include "suites/checks/clipping_checks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "suites/checks/difference_text.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

constexpr std::string_view norm = "grad_norm";
constexpr std::string_view factor = "clip_factor";

bool is_of_clipping(std::string_view tensor) {
  return tensor == norm || tensor == factor || tensor.starts_with("clipped_grad:");
}

/// True where clipping is the first to differ. Of a step that is one graph the gradients are seen
/// when it has clipped them: where their norm, taken before, is eager's, it was clipping.
bool is_first_in_clipping(const matrix::Cell& cell, const LegDifference& difference,
                          const ObservationOutcome& first) {
  if (is_of_clipping(first.where.tensor)) return true;
  if (!captures_whole_step(cell) || first.quantity != workloads::ObservedQuantity::main_grad) {
    return false;
  }
  return std::any_of(difference.outcomes.begin(), difference.outcomes.end(),
                     [&](const ObservationOutcome& outcome) {
                       return outcome.where.tensor == norm &&
                              outcome.where.step == first.where.step && !outcome.differs();
                     });
}

/// Steps of a leg whose clip factor is not that of the step before: a factor that never changes is
/// that of gradients which were never clipped.
std::uint64_t factor_changes(JudgeContext& context, const workloads::LegRequest& leg) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::optional<std::size_t> before;
  const auto& observations = context.legs.record(leg).observations;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    if (observations[i].where.tensor != factor) continue;
    if (before) pairs.emplace_back(*before, i);
    before = i;
  }
  std::uint64_t changes = 0;
  for (const Comparison& comparison : context.legs.compare_within(leg, pairs)) {
    if (!comparison.equal()) ++changes;
  }
  return changes;
}

}  // namespace

bool graph_cells_that_clip(const matrix::Cell& cell) {
  return graph_cells(cell) && cell.shape.clip_grad > 0.0F;
}

CheckResult judge_clipping(JudgeContext& context) {
  std::uint64_t gradients = 0;
  std::uint64_t norms = 0;
  for (const auto& [expected, actual] : compared_pairs(context.cell)) {
    const LegDifference& difference = context.legs.difference(expected, actual);
    const ObservationOutcome* first = difference.first();
    // Where something else differs first, what becomes of the norm is its consequence.
    if (first != nullptr && is_first_in_clipping(context.cell, difference, *first)) {
      return {.verdict = first->missing_in_actual || first->missing_in_expected
                             ? Verdict::fail_coverage
                             : Verdict::fail_state_frozen,
              .detail = describe_difference(*first, expected, actual),
              .divergence = divergence_of(*first)};
    }
    for (const ObservationOutcome& outcome : difference.outcomes) {
      if (!is_of_clipping(outcome.where.tensor)) continue;
      ++(outcome.where.tensor == norm ? norms : gradients);
    }
  }
  if (norms == 0 || gradients == 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "no gradient norm was observed"};
  }
  const std::uint64_t changes = factor_changes(context, graph_leg());
  const std::string_view clipped =
      changes > 0 ? "gradients were clipped" : "no gradient was large enough to be clipped";
  return {.detail = fmt::format("{} global norms and {} factors and gradients equal eager's; {}",
                                norms, gradients, clipped)};
}

}  // namespace cgconform::suites::checks
