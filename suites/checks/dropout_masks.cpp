#include "suites/checks/dropout_masks.hpp"

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

std::vector<Successive> successive_masks(const std::vector<Observation>& observations) {
  std::map<std::tuple<std::int32_t, std::string, bool>, std::size_t> last;
  std::vector<Successive> pairs;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& mask = observations[i];
    if (mask.quantity != ObservedQuantity::dropout_mask) continue;
    const auto place = std::make_tuple(mask.where.layer, mask.where.tensor, mask.where.validation);
    const auto previous = last.find(place);
    if (previous != last.end()) {
      const auto& before = observations[previous->second].where;
      // Recompute draws the mask of its forward again, at the same step and micro-batch.
      const bool drawn_anew =
          before.step != mask.where.step || before.microbatch != mask.where.microbatch;
      if (drawn_anew) pairs.emplace_back(previous->second, i);
    }
    last.insert_or_assign(place, i);
  }
  return pairs;
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
  const auto outcomes = context.legs.compare_within(actual, pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!outcomes[i].equal()) continue;
    return {.verdict = Verdict::fail_rng_state,
            .detail = fmt::format("the mask of {} is that of {} again",
                                  location_text(observations[pairs[i].second].where),
                                  location_text(observations[pairs[i].first].where))};
  }

  const LegDifference& difference = context.legs.difference(expected, actual);
  const auto* first =
      difference.first({ObservedQuantity::dropout_mask, ObservedQuantity::rng_state});
  if (first != nullptr) {
    return {.verdict = Verdict::fail_rng_state,
            .detail = fmt::format("{} differs from eager's at the same counter",
                                  location_text(first->where)),
            .divergence = divergence_of(*first)};
  }
  return {.detail =
              fmt::format("{} masks equal eager's, {} successive ones differ",
                          difference.compared({ObservedQuantity::dropout_mask}), pairs.size())};
}

}  // namespace cgconform::suites::checks
