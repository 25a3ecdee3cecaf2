#include "suites/checks/dropout_masks.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Observation;
using workloads::ObservedQuantity;

/// Indices of two masks of one place in the model, drawn one after the other.
using Successive = std::pair<std::size_t, std::size_t>;
/// Step, micro-batch, layer, tensor and kind of step of a mask.
using MaskKey = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::string, bool>;

/// Below this, two equal masks are no accident: far rarer than a fault of the machine.
constexpr double negligible_chance = 1e-9;

MaskKey key_of(const Observation& mask) {
  return {mask.where.step, mask.where.microbatch, mask.where.layer, mask.where.tensor.text(),
          mask.where.validation};
}

/// The chance that two masks of so many elements, drawn anew, are equal.
double chance_of_equality(const matrix::Cell& cell, std::int64_t elements) {
  double differing = 0.5;
  for (const float rate : {cell.config.hidden_dropout, cell.config.attention_dropout}) {
    const auto p = static_cast<double>(rate);
    if (p > 0.0) differing = std::min(differing, 2.0 * p * (1.0 - p));
  }
  return std::pow(1.0 - differing, static_cast<double>(elements));
}

std::vector<Successive> successive_masks(const std::vector<Observation>& observations) {
  std::map<std::tuple<std::int32_t, std::string, bool>, std::size_t> last;
  std::vector<Successive> pairs;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& mask = observations[i];
    if (mask.quantity != ObservedQuantity::dropout_mask) continue;
    const auto place =
        std::make_tuple(mask.where.layer, mask.where.tensor.text(), mask.where.validation);
    const auto previous = last.find(place);
    if (previous != last.end()) {
      const auto& before = observations[previous->second].where;
      const bool drawn_anew =
          before.step != mask.where.step || before.microbatch != mask.where.microbatch;
      if (drawn_anew) pairs.emplace_back(previous->second, i);
    }
    last.insert_or_assign(place, i);
  }
  return pairs;
}

/// The masks of the leg that equal the one drawn before them, by what they are.
std::map<MaskKey, Successive> repeated_masks(LegSet& legs, const workloads::LegRequest& leg,
                                             const std::vector<Successive>& pairs) {
  const auto& observations = legs.record(leg).observations;
  const auto outcomes = legs.compare_within(leg, pairs);
  std::map<MaskKey, Successive> repeated;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (outcomes[i].equal()) repeated.emplace(key_of(observations[pairs[i].second]), pairs[i]);
  }
  return repeated;
}

}  // namespace

CheckResult judge_dropout_masks(JudgeContext& context) {
  const auto expected = instrumented_eager_leg();
  const auto actual = instrumented_graph_leg();
  const auto& observations = context.legs.record(actual).observations;
  const auto pairs = successive_masks(observations);
  if (pairs.empty()) {
    return {.verdict = Verdict::fail_coverage,
            .detail = "no two dropout masks of one place were observed"};
  }
  const auto in_eager = repeated_masks(
      context.legs, expected, successive_masks(context.legs.record(expected).observations));
  for (const auto& [key, pair] : repeated_masks(context.legs, actual, pairs)) {
    const Observation& mask = observations[pair.second];
    // Masks of few elements are equal by chance now and then; eager's are then equal as well.
    const bool by_chance =
        in_eager.contains(key) &&
        chance_of_equality(context.cell, mask.snapshot.view().elements()) > negligible_chance;
    if (by_chance) continue;
    return {.verdict = Verdict::fail_rng_state,
            .detail = fmt::format("the mask of {} is that of {} again", location_text(mask.where),
                                  location_text(observations[pair.first].where))};
  }

  const LegDifference& difference = context.legs.difference(expected, actual);
  const auto* first =
      difference.first({ObservedQuantity::dropout_mask, ObservedQuantity::rng_state});
  if (first != nullptr) {
    // A recompute that draws from the live state moves it on for all that is drawn later.
    const auto* earliest =
        difference.first({ObservedQuantity::dropout_mask, ObservedQuantity::rng_state,
                          ObservedQuantity::recomputed_mask});
    const bool by_recompute = earliest->quantity == ObservedQuantity::recomputed_mask;
    return {.verdict = by_recompute ? Verdict::fail_rng_recompute : Verdict::fail_rng_state,
            .detail = fmt::format("{} differs from eager's at the same counter",
                                  location_text(first->where)),
            .divergence = divergence_of(*first)};
  }
  return {.detail =
              fmt::format("{} masks equal eager's, {} pairs of successive ones compared",
                          difference.compared({ObservedQuantity::dropout_mask}), pairs.size())};
}

}  // namespace cgconform::suites::checks
