#include "matrix/covering_array.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "matrix/value_tuples.hpp"

namespace cgconform::matrix {
namespace {

enum class Standing : std::uint8_t { unusable, legal, runs };

Standing standing_of(const Classification& classification) {
  if (classification.status == CellStatus::run) return Standing::runs;
  const bool equal = classification.skip == SkipReason::duplicate ||
                     classification.skip == SkipReason::no_device_effect;
  return classification.status == CellStatus::refused || equal ? Standing::unusable
                                                               : Standing::legal;
}

/// A cell that holds a tuple: one that runs where there is one, else one that is skipped.
class Witness {
 public:
  bool exists() const { return packed_ != none; }
  bool runs() const { return exists() && (packed_ & running_bit) != 0; }
  std::uint64_t cell() const { return packed_ & ~running_bit; }
  void offer(std::uint64_t cell, Standing standing) {
    if (standing == Standing::runs ? runs() : exists()) return;
    packed_ = static_cast<std::uint32_t>(cell) | (standing == Standing::runs ? running_bit : 0);
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  static constexpr std::uint32_t running_bit = std::uint32_t{1} << 31U;
  static_assert(most_covered_cells < running_bit);
  std::uint32_t packed_ = none;
};

class TupleCover {
 public:
  TupleCover(const Expansion& expansion, const TupleNumbers& tuples, CellClassifier& classifier,
             std::uint64_t seed)
      : expansion_(expansion),
        classifier_(classifier),
        tuples_(tuples),
        witnesses_(tuples.count()),
        covered_(tuples.count(), false),
        random_(seed) {}

  std::vector<std::uint64_t> choose() {
    find_witnesses();
    std::vector<std::uint32_t> order(tuples_.count());
    std::iota(order.begin(), order.end(), 0U);
    shuffle(order);
    std::vector<std::uint64_t> result;
    for (const Standing wanted : {Standing::runs, Standing::legal}) {
      std::vector<bool> before = covered_;
      std::vector<std::uint64_t> picked;
      for (const std::uint32_t tuple : order) {
        const Witness witness = witnesses_[tuple];
        const bool stands = wanted == Standing::runs ? witness.runs() : witness.exists();
        if (covered_[tuple] || !stands) continue;
        picked.push_back(improve(witness.cell(), tuple, wanted));
        cover(picked.back());
      }
      // Each prefix is to cover much; cells that later ones made superfluous drop out.
      for (const std::uint64_t index : order_by_gain(expansion_, tuples_, picked, before)) {
        result.push_back(index);
      }
    }
    return result;
  }

 private:
  void find_witnesses() {
    Coordinates at;
    for (auto next = expansion_.next_admitted(0, at); next;
         next = expansion_.next_admitted(*next + 1, at)) {
      const std::uint64_t index = *next;
      const Standing standing = standing_of(classifier_.classify(at));
      if (standing == Standing::unusable) continue;
      tuples_.for_each(at, [&](std::uint64_t tuple) { witnesses_[tuple].offer(index, standing); });
    }
  }

  /// Climbs from a witness of `tuple`: tries the other values of each other axis in turn and keeps
  /// what adds tuples, as long as the cell stands as wanted and still holds the tuple.
  std::uint64_t improve(std::uint64_t witness, std::uint64_t tuple, Standing wanted) {
    Coordinates best;
    expansion_.coordinates(witness, best);
    std::size_t best_gain = gain(best);
    std::vector<std::size_t> axes(expansion_.varying().begin(), expansion_.varying().end());
    shuffle(axes);
    Coordinates trial = best;
    for (const std::size_t axis : axes) {
      std::vector<std::pair<std::size_t, std::uint32_t>> offers;
      for (std::uint32_t value = 0; value < expansion_.axes()[axis].values.size(); ++value) {
        trial[axis] = value;
        const std::size_t trial_gain = gain(trial);
        if (trial_gain > best_gain && holds(trial, tuple)) offers.emplace_back(trial_gain, value);
      }
      std::stable_sort(offers.begin(), offers.end(),
                       [](const auto& a, const auto& b) { return a.first > b.first; });
      trial[axis] = best[axis];
      for (const auto& [offered_gain, value] : offers) {
        trial[axis] = value;
        if (expansion_.admits(trial) && standing_of(classifier_.classify(trial)) >= wanted) {
          best_gain = offered_gain;
          best = trial;
          break;
        }
        trial[axis] = best[axis];
      }
    }
    return expansion_.index_of(best);
  }

  std::size_t gain(std::span<const std::uint32_t> coordinates) const {
    std::size_t uncovered = 0;
    tuples_.for_each(coordinates, [&](std::uint64_t tuple) {
      if (!covered_[tuple] && witnesses_[tuple].exists()) ++uncovered;
    });
    return uncovered;
  }

  bool holds(std::span<const std::uint32_t> coordinates, std::uint64_t wanted) const {
    bool found = false;
    tuples_.for_each(coordinates, [&](std::uint64_t tuple) { found |= tuple == wanted; });
    return found;
  }

  void cover(std::uint64_t index) {
    Coordinates at;
    expansion_.coordinates(index, at);
    tuples_.for_each(at, [&](std::uint64_t tuple) { covered_[tuple] = true; });
  }

  template <typename T>
  void shuffle(std::vector<T>& items) {
    // std::shuffle may differ between libraries; the choice must not.
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random_() % i]);
  }

  const Expansion& expansion_;
  CellClassifier& classifier_;
  const TupleNumbers& tuples_;
  std::vector<Witness> witnesses_;
  std::vector<bool> covered_;
  std::mt19937_64 random_;
};

/// Every cell that is neither refused nor a duplicate.
std::vector<std::uint64_t> usable_cells(const Expansion& expansion, CellClassifier& classifier) {
  std::vector<std::uint64_t> cells;
  Coordinates at;
  for (auto next = expansion.next_admitted(0, at); next;
       next = expansion.next_admitted(*next + 1, at)) {
    if (standing_of(classifier.classify(at)) != Standing::unusable) cells.push_back(*next);
  }
  return cells;
}

}  // namespace

std::vector<std::uint64_t> covering_cells(const Expansion& expansion, CellClassifier& classifier,
                                          std::uint64_t seed) {
  const Matrix& matrix = expansion.matrix();
  const auto width = static_cast<std::size_t>(matrix.strategy.width);
  if (expansion.size() > most_covered_cells) {
    throw InputError(fmt::format(
        "{}, strategy: a strategy that chooses takes at most {} cells, the axes make {}; drop "
        "values or split the matrix",
        matrix.source, most_covered_cells, expansion.size()));
  }
  if (expansion.varying().size() < width) return usable_cells(expansion, classifier);
  const TupleNumbers tuples(expansion, width);
  if (tuples.count() > most_covered_tuples) {
    throw InputError(fmt::format(
        "{}, strategy: t-wise takes at most {} tuples of values, {} at a time the axes make {}; "
        "take fewer at a time, drop values or split the matrix",
        matrix.source, most_covered_tuples, width, tuples.count()));
  }
  return TupleCover(expansion, tuples, classifier, seed).choose();
}

}  // namespace cgconform::matrix
