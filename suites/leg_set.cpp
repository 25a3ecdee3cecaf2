#include "suites/leg_set.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

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

/// Identifies an observation across legs: what, where, and the how manieth of the same.
struct ObservationKey {
  const Observation* observation = nullptr;
  std::int32_t occurrence = 0;

  bool operator==(const ObservationKey& other) const {
    return occurrence == other.occurrence && observation->quantity == other.observation->quantity &&
           observation->where == other.observation->where;
  }
};

struct ObservationKeyHash {
  std::size_t operator()(const ObservationKey& key) const {
    const TensorLocation& where = key.observation->where;
    const std::array<std::int32_t, 6> numbers{static_cast<std::int32_t>(key.observation->quantity),
                                              where.step,
                                              where.microbatch,
                                              where.layer,
                                              static_cast<std::int32_t>(where.validation),
                                              key.occurrence};
    return XXH3_64bits_withSeed(where.tensor.data(), where.tensor.size(),
                                XXH3_64bits(numbers.data(), sizeof(numbers)));
  }
};

std::vector<ObservationKey> keys_of(std::span<const Observation> observations) {
  std::unordered_map<ObservationKey, std::int32_t, ObservationKeyHash> seen(observations.size());
  std::vector<ObservationKey> keys;
  keys.reserve(observations.size());
  for (const Observation& observation : observations) {
    keys.push_back({&observation, seen[{&observation, 0}]++});
  }
  return keys;
}

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
  const auto expected_keys = keys_of(expected_observations);
  const auto actual_keys = keys_of(actual_observations);
  std::unordered_map<ObservationKey, std::size_t, ObservationKeyHash> actual_index(
      actual_keys.size());
  for (std::size_t i = 0; i < actual_keys.size(); ++i) actual_index.emplace(actual_keys[i], i);

  const bool sees_inside_graphs = actual.kind == LegKind::eager || actual.instrumented;
  LegDifference difference;
  // Types with tolerances of their own are batches of their own.
  const bool close_is_enough = order_changing_reason(cell_) != nullptr;
  std::map<workloads::DType, std::vector<std::pair<std::size_t, ComparisonPair>>> batches;
  std::vector<bool> matched(actual_keys.size(), false);
  for (std::size_t i = 0; i < expected_keys.size(); ++i) {
    const Observation& observation = expected_observations[i];
    ObservationOutcome outcome{.quantity = observation.quantity, .where = observation.where};
    const auto found = actual_index.find(expected_keys[i]);
    if (found == actual_index.end()) {
      if (!sees_inside_graphs && may_be_inside_graph(observation.quantity)) continue;
      if (may_be_in_one_leg_only(observation.quantity)) continue;
      outcome.missing_in_actual = true;
    } else {
      matched[found->second] = true;
      const workloads::Snapshot& expected_snapshot = observation.snapshot;
      const workloads::Snapshot& actual_snapshot = actual_observations[found->second].snapshot;
      batches[close_is_enough ? expected_snapshot.view().dtype : workloads::DType{}].emplace_back(
          difference.outcomes.size(),
          ComparisonPair{expected_snapshot.view(), actual_snapshot.view(),
                         expected_snapshot.whole(), actual_snapshot.whole()});
    }
    difference.outcomes.push_back(std::move(outcome));
  }
  for (std::size_t i = 0; i < actual_keys.size(); ++i) {
    if (matched[i] || may_be_in_one_leg_only(actual_observations[i].quantity)) continue;
    difference.outcomes.push_back({.quantity = actual_observations[i].quantity,
                                   .where = actual_observations[i].where,
                                   .missing_in_expected = true});
  }

  for (const auto& [dtype, indexed_pairs] : batches) {
    std::vector<ComparisonPair> pairs;
    pairs.reserve(indexed_pairs.size());
    for (const auto& [index, pair] : indexed_pairs) pairs.push_back(pair);
    const auto comparisons =
        comparator_.compare(pairs, close_is_enough ? tolerance_of(dtype) : Tolerance{});
    for (std::size_t i = 0; i < comparisons.size(); ++i) {
      difference.outcomes[indexed_pairs[i].first].comparison = comparisons[i];
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
    const auto compared = comparator_.compare(batch, Tolerance{});
    for (std::size_t i = 0; i < indices.size(); ++i) outcomes[indices[i]] = compared[i];
  }
  return outcomes;
}

std::string location_text(const TensorLocation& where) {
  std::string text = where.validation ? "validation " : "";
  if (where.step >= 0) text += fmt::format("step {} ", where.step);
  if (where.microbatch >= 0) text += fmt::format("micro-batch {} ", where.microbatch);
  if (where.layer >= 0) text += fmt::format("layer {} ", where.layer);
  return text + where.tensor;
}

Divergence divergence_of(const ObservationOutcome& outcome) {
  const Comparison& comparison = outcome.comparison;
  return {.step = outcome.where.step,
          .microbatch = outcome.where.microbatch,
          .layer = outcome.where.layer,
          .tensor = outcome.where.tensor,
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
