#include "suites/leg_set.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "matrix/error.hpp"

namespace cgconform::suites {

using workloads::LegKind;
using workloads::LegRequest;
using workloads::Observation;
using workloads::ObservedQuantity;
using workloads::TensorLocation;

namespace {

/// Two legs replay in different topological orders, so that a missing edge has two chances to show.
constexpr std::uint64_t plain_replay_seed = 1;
constexpr std::uint64_t instrumented_replay_seed = 2;
constexpr std::uint64_t timed_replay_seed = 3;

bool same_place(const Observation& a, const Observation& b) {
  return a.quantity == b.quantity && a.where == b.where;
}

std::uint64_t hash_of(const Observation& observation) {
  const TensorLocation& where = observation.where;
  const std::array<std::int32_t, 5> numbers{static_cast<std::int32_t>(observation.quantity),
                                            where.step, where.microbatch, where.layer,
                                            static_cast<std::int32_t>(where.validation)};
  return XXH3_64bits_withSeed(where.tensor.text().data(), where.tensor.text().size(),
                              XXH3_64bits(numbers.data(), sizeof(numbers)));
}

/// Finds the observations of a leg from a first one on by what they show and where. Of several with
/// the same place, each is found once, in their order.
class ObservationIndex {
 public:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  ObservationIndex(std::span<const Observation> observations, std::size_t begin)
      : observations_(observations),
        firsts_(std::bit_ceil(2 * (observations.size() - begin) + 1), none),
        next_(observations.size(), none),
        last_(observations.size(), none) {
    for (std::size_t i = begin; i < observations.size(); ++i) {
      std::size_t& first = first_at(observations[i]);
      if (first == none) {
        first = i;
      } else {
        next_[last_[first]] = i;
      }
      last_[first] = i;
    }
    left_ = firsts_;
  }

  /// The first that is like `observation` and was not taken yet; `none` where there is none.
  std::size_t take(const Observation& observation) {
    const std::size_t& first = first_at(observation);
    std::size_t& left = left_[static_cast<std::size_t>(&first - firsts_.data())];
    return left == none ? none : std::exchange(left, next_[left]);
  }

 private:
  /// The place in the table where the first observation like `observation` stands, or could.
  std::size_t& first_at(const Observation& observation) {
    std::size_t at = hash_of(observation) & (firsts_.size() - 1);
    while (firsts_[at] != none && !same_place(observations_[firsts_[at]], observation)) {
      at = (at + 1) & (firsts_.size() - 1);
    }
    return firsts_[at];
  }

  std::span<const Observation> observations_;
  std::vector<std::size_t> firsts_;  ///< a hash table, open addressing
  std::vector<std::size_t> left_;    ///< by place in the table: the first not taken yet
  std::vector<std::size_t> next_;    ///< by observation: the next with the same place
  std::vector<std::size_t> last_;    ///< by first observation: the last with the same place
};

/// Quantities that exist inside a graph only, out of reach without instrumentation.
bool may_be_inside_graph(ObservedQuantity quantity) {
  return quantity == ObservedQuantity::layer_output ||
         quantity == ObservedQuantity::layer_grad_input ||
         quantity == ObservedQuantity::dropout_mask || quantity == ObservedQuantity::routing;
}

/// What one leg computes again and the other may keep: seen in both or left out.
bool may_be_in_one_leg_only(ObservedQuantity quantity) {
  return quantity == ObservedQuantity::recomputed_mask;
}

bool is_among(ObservedQuantity quantity, std::initializer_list<ObservedQuantity> quantities) {
  return std::find(quantities.begin(), quantities.end(), quantity) != quantities.end();
}

}  // namespace

LegRequest eager_leg() {
  return {};
}

LegRequest eager_repeat_leg() {
  return {.repetition = 1};
}

LegRequest graph_leg() {
  return {.kind = LegKind::graph, .replay_seed = plain_replay_seed};
}

LegRequest eager_leg_without_recompute() {
  return {.without_recompute = true};
}

LegRequest graph_leg_without_recompute() {
  LegRequest leg = graph_leg();
  leg.without_recompute = true;
  return leg;
}

LegRequest eager_leg_of(std::int32_t steps) {
  return {.steps = steps};
}

LegRequest graph_leg_of(std::int32_t steps, std::int32_t warmup_steps) {
  LegRequest leg = graph_leg();
  leg.steps = steps;
  leg.warmup_steps = warmup_steps;
  return leg;
}

LegRequest instrumented_eager_leg() {
  return {.instrumented = true};
}

LegRequest instrumented_graph_leg() {
  return {.kind = LegKind::graph, .instrumented = true, .replay_seed = instrumented_replay_seed};
}

LegRequest timed_graph_leg() {
  return {.kind = LegKind::graph, .repetition = 1, .replay_seed = timed_replay_seed, .timed = true};
}

LegRequest unvalidated_graph_leg() {
  LegRequest request = graph_leg();
  request.without_validation = true;
  return request;
}

LegRequest cycle_leg() {
  constexpr std::int32_t cycles = 5;
  LegRequest request = graph_leg();
  request.cycles = cycles;
  return request;
}

LegRequest other_pools_leg() {
  LegRequest request = graph_leg();
  request.other_pools = true;
  return request;
}

std::string leg_name(const LegRequest& request) {
  std::string name = request.kind == LegKind::eager ? "eager" : "graph";
  if (request.cycles > 0) name += fmt::format(" {} cycles", request.cycles);
  if (request.other_pools) name += " other pools";
  if (request.instrumented) name += " instrumented";
  if (request.timed) name += " timed";
  if (request.without_validation) name += " without validation";
  if (request.repetition > 0) name += fmt::format(" repeat {}", request.repetition);
  if (request.warmup_steps >= 0) name += fmt::format(" warm-up {}", request.warmup_steps);
  if (request.steps > 0) name += fmt::format(" of {} steps", request.steps);
  if (request.restart_after > 0) name += " restarted";
  if (request.without_recompute) name += " without recompute";
  return name;
}

std::uint64_t LegDifference::compared(std::initializer_list<ObservedQuantity> quantities) const {
  return static_cast<std::uint64_t>(
      std::count_if(outcomes.begin(), outcomes.end(), [&](const ObservationOutcome& outcome) {
        return is_among(outcome.quantity, quantities) && !outcome.missing_in_actual &&
               !outcome.missing_in_expected;
      }));
}

const ObservationOutcome* LegDifference::first(
    std::initializer_list<ObservedQuantity> quantities) const {
  const auto found =
      std::find_if(outcomes.begin(), outcomes.end(), [&](const ObservationOutcome& outcome) {
        return is_among(outcome.quantity, quantities) && outcome.differs();
      });
  return found == outcomes.end() ? nullptr : &*found;
}

const ObservationOutcome* LegDifference::first() const {
  const auto found =
      std::find_if(outcomes.begin(), outcomes.end(),
                   [](const ObservationOutcome& outcome) { return outcome.differs(); });
  return found == outcomes.end() ? nullptr : &*found;
}

LegSet::LegSet(const matrix::Cell& cell, ControlledComparator& comparator)
    : cell_(cell), comparator_(comparator) {}

void LegSet::add(const LegRequest& request, LegState state) {
  legs_.insert_or_assign(request, std::move(state));
}

const LegState& LegSet::state(const LegRequest& request) const {
  const auto found = legs_.find(request);
  if (found == legs_.end()) {
    throw InternalError(fmt::format(
        "the {} leg was not planned: a check uses a leg it did not ask for", leg_name(request)));
  }
  return found->second;
}

const workloads::LegRecord& LegSet::record(const LegRequest& request) const {
  return state(request).record();
}

const LegDifference& LegSet::difference(const LegRequest& expected, const LegRequest& actual) {
  const auto key = std::make_pair(expected, actual);
  if (const auto known = differences_.find(key); known != differences_.end()) return known->second;

  const auto& expected_observations = record(expected).observations;
  const auto& actual_observations = record(actual).observations;
  // Legs mostly observe the same places in the same order; an index finds the others.
  const auto same =
      std::mismatch(expected_observations.begin(), expected_observations.end(),
                    actual_observations.begin(), actual_observations.end(), same_place);
  const auto in_order = static_cast<std::size_t>(same.first - expected_observations.begin());
  ObservationIndex later(actual_observations, in_order);
  const bool sees_inside_graphs = actual.kind == LegKind::eager || actual.instrumented;
  LegDifference difference{.records = {state(expected).leg.record, state(actual).leg.record}};
  // Types with tolerances of their own are batches of their own.
  const bool close_is_enough = order_changing_reason(cell_) != nullptr;
  struct Batch {
    std::vector<std::size_t> outcomes;
    std::vector<ComparisonPair> pairs;
  };
  std::map<workloads::DType, Batch> batches;
  if (!close_is_enough) {
    batches[workloads::DType{}].pairs.reserve(expected_observations.size());
  }
  std::vector<bool> matched(actual_observations.size(), false);
  difference.outcomes.reserve(expected_observations.size());
  for (std::size_t i = 0; i < expected_observations.size(); ++i) {
    const Observation& observation = expected_observations[i];
    const std::size_t found = i < in_order ? i : later.take(observation);
    const bool missing = found == ObservationIndex::none;
    if (missing && !sees_inside_graphs && may_be_inside_graph(observation.quantity)) continue;
    if (missing && may_be_in_one_leg_only(observation.quantity)) continue;
    difference.outcomes.push_back({.quantity = observation.quantity,
                                   .where = observation.where,
                                   .missing_in_actual = missing});
    if (missing) continue;
    matched[found] = true;
    const workloads::Snapshot& expected_snapshot = observation.snapshot;
    const workloads::Snapshot& actual_snapshot = actual_observations[found].snapshot;
    Batch& batch = batches[close_is_enough ? expected_snapshot.view().dtype : workloads::DType{}];
    batch.outcomes.push_back(difference.outcomes.size() - 1);
    batch.pairs.push_back({expected_snapshot.view(), actual_snapshot.view(),
                           expected_snapshot.whole(), actual_snapshot.whole()});
  }
  for (std::size_t i = 0; i < actual_observations.size(); ++i) {
    if (matched[i] || may_be_in_one_leg_only(actual_observations[i].quantity)) continue;
    difference.outcomes.push_back({.quantity = actual_observations[i].quantity,
                                   .where = actual_observations[i].where,
                                   .missing_in_expected = true});
  }

  for (auto& [dtype, batch] : batches) {
    const auto comparisons = comparator_.compare(
        std::move(batch.pairs), close_is_enough ? tolerance_of(dtype) : Tolerance{});
    for (std::size_t i = 0; i < comparisons.size(); ++i) {
      difference.outcomes[batch.outcomes[i]].comparison = comparisons[i];
    }
  }
  return differences_.emplace(key, std::move(difference)).first->second;
}

std::vector<Comparison> LegSet::compare_within(
    const LegRequest& request, std::span<const std::pair<std::size_t, std::size_t>> pairs) {
  const auto& observations = record(request).observations;
  std::map<workloads::DType, std::vector<std::size_t>> by_dtype;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    by_dtype[observations.at(pairs[i].first).snapshot.view().dtype].push_back(i);
  }
  std::vector<Comparison> outcomes(pairs.size());
  for (const auto& [dtype, indices] : by_dtype) {
    std::vector<ComparisonPair> batch;
    batch.reserve(indices.size());
    for (const std::size_t i : indices) {
      batch.push_back({observations.at(pairs[i].first).snapshot.view(),
                       observations.at(pairs[i].second).snapshot.view()});
    }
    const auto compared = comparator_.compare(std::move(batch), Tolerance{});
    for (std::size_t i = 0; i < indices.size(); ++i) outcomes[indices[i]] = compared[i];
  }
  return outcomes;
}

std::string location_text(const TensorLocation& where) {
  std::string text = where.validation ? "validation " : "";
  if (where.step >= 0) text += fmt::format("step {} ", where.step);
  if (where.microbatch >= 0) text += fmt::format("micro-batch {} ", where.microbatch);
  if (where.layer >= 0) text += fmt::format("layer {} ", where.layer);
  return text + where.tensor.text();
}

Divergence divergence_of(const ObservationOutcome& outcome) {
  const Comparison& comparison = outcome.comparison;
  return {.step = outcome.where.step,
          .microbatch = outcome.where.microbatch,
          .layer = outcome.where.layer,
          .tensor = outcome.where.tensor.text(),
          .first_bad_index = comparison.first_bad_index,
          .expected = comparison.expected,
          .actual = comparison.actual,
          .bad_count = comparison.bad_count,
          .element_count = comparison.element_count,
          .max_abs = comparison.max_abs,
          .max_rel = comparison.max_rel,
          .max_ulp = comparison.max_ulp};
}

}  // namespace cgconform::suites
