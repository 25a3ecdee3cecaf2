#include "matrix/pairwise.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::matrix {
namespace {

constexpr std::uint64_t no_cell = UINT64_MAX;

/// Where a pair can be held: by a cell that runs, else by one that is skipped.
struct Witness {
  std::uint64_t runs = no_cell;
  std::uint64_t legal = no_cell;
};

enum class Standing : std::uint8_t { unusable, legal, runs };

Standing standing_of(const Classification& classification) {
  if (classification.status == CellStatus::run) return Standing::runs;
  const bool equal = classification.skip == SkipReason::duplicate ||
                     classification.skip == SkipReason::no_device_effect;
  return classification.status == CellStatus::refused || equal ? Standing::unusable
                                                               : Standing::legal;
}

class PairCover {
 public:
  PairCover(const Expansion& expansion, CellClassifier& classifier, std::uint64_t seed)
      : expansion_(expansion),
        classifier_(classifier),
        pairs_(expansion),
        witnesses_(pairs_.count()),
        covered_(pairs_.count(), false),
        random_(seed) {}

  std::vector<std::uint64_t> choose() {
    find_witnesses();
    std::vector<std::size_t> order(pairs_.count());
    std::iota(order.begin(), order.end(), std::size_t{0});
    shuffle(order);
    std::vector<std::uint64_t> result;
    for (const Standing wanted : {Standing::runs, Standing::legal}) {
      const std::vector<bool> before = covered_;
      std::vector<std::uint64_t> picked;
      for (const std::size_t pair : order) {
        const std::uint64_t witness =
            wanted == Standing::runs ? witnesses_[pair].runs : witnesses_[pair].legal;
        if (covered_[pair] || witness == no_cell) continue;
        picked.push_back(improve(witness, pair, wanted));
        cover(picked.back());
      }
      covered_ = before;
      for (const std::uint64_t index : by_falling_gain(picked)) result.push_back(index);
    }
    return pairs_.count() == 0 ? usable_ : result;
  }

 private:
  void find_witnesses() {
    Coordinates at;
    for (std::uint64_t index = 0; index < expansion_.size(); ++index) {
      expansion_.coordinates(index, at);
      if (!expansion_.admits(at)) continue;
      const Standing standing = standing_of(classifier_.classify(at));
      if (standing == Standing::unusable) continue;
      if (pairs_.count() == 0) usable_.push_back(index);
      pairs_.for_each(expansion_, at, [&](std::size_t pair) {
        Witness& witness = witnesses_[pair];
        if (witness.legal == no_cell) witness.legal = index;
        if (standing == Standing::runs && witness.runs == no_cell) witness.runs = index;
      });
    }
  }

  /// Climbs from a witness of `pair`: tries the other values of each other axis in turn and keeps
  /// what adds pairs, as long as the cell stands as wanted and still holds the pair.
  std::uint64_t improve(std::uint64_t witness, std::size_t pair, Standing wanted) {
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
        if (trial_gain > best_gain && holds(trial, pair)) offers.emplace_back(trial_gain, value);
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
    pairs_.for_each(expansion_, coordinates, [&](std::size_t pair) {
      const bool possible = witnesses_[pair].legal != no_cell;
      if (possible && !covered_[pair]) ++uncovered;
    });
    return uncovered;
  }

  bool holds(std::span<const std::uint32_t> coordinates, std::size_t wanted) const {
    bool found = false;
    pairs_.for_each(expansion_, coordinates, [&](std::size_t pair) { found |= pair == wanted; });
    return found;
  }

  void cover(std::uint64_t index) {
    Coordinates at;
    expansion_.coordinates(index, at);
    pairs_.for_each(expansion_, at, [&](std::size_t pair) { covered_[pair] = true; });
  }

  /// Orders the picked cells so that each prefix covers much, and drops those that add nothing.
  /// Gains only fall, so an outdated gain is a bound and is computed again only at the top.
  std::vector<std::uint64_t> by_falling_gain(const std::vector<std::uint64_t>& picked) {
    using Offer = std::pair<std::size_t, std::size_t>;  // gain, distance from the end
    std::priority_queue<Offer> offers;
    Coordinates at;
    const auto gain_of = [&](std::uint64_t index) {
      expansion_.coordinates(index, at);
      return gain(at);
    };
    for (std::size_t i = 0; i < picked.size(); ++i) {
      offers.emplace(gain_of(picked[i]), picked.size() - 1 - i);
    }
    std::vector<std::uint64_t> ordered;
    while (!offers.empty()) {
      const auto [bound, place] = offers.top();
      const std::uint64_t index = picked[picked.size() - 1 - place];
      offers.pop();
      const std::size_t now = gain_of(index);
      if (now == bound && now > 0) {
        ordered.push_back(index);
        cover(index);
      } else if (now > 0) {
        offers.emplace(now, place);
      }
    }
    return ordered;
  }

  template <typename T>
  void shuffle(std::vector<T>& items) {
    // std::shuffle may differ between libraries; the choice must not.
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random_() % i]);
  }

  const Expansion& expansion_;
  CellClassifier& classifier_;
  PairNumbers pairs_;
  std::vector<Witness> witnesses_;
  std::vector<bool> covered_;
  std::vector<std::uint64_t> usable_;  ///< where one axis or none leaves no pairs
  std::mt19937_64 random_;
};

}  // namespace

PairNumbers::PairNumbers(const Expansion& expansion) : axes_(expansion.varying().size()) {
  for (const std::size_t axis : expansion.varying()) {
    sizes_.push_back(expansion.axes()[axis].values.size());
  }
  first_.assign(axes_ * axes_, 0);
  for (std::size_t a = 0; a < axes_; ++a) {
    for (std::size_t b = a + 1; b < axes_; ++b) {
      first_[a * axes_ + b] = count_;
      count_ += sizes_[a] * sizes_[b];
    }
  }
}

std::vector<std::uint64_t> pairwise_cells(const Expansion& expansion, CellClassifier& classifier,
                                          std::uint64_t seed) {
  if (expansion.size() > maximum_pairwise_cells) {
    throw InputError(fmt::format(
        "{}, strategy: pairwise takes at most {} cells, the axes make {}; drop values or split the "
        "matrix",
        expansion.matrix().source, maximum_pairwise_cells, expansion.size()));
  }
  return PairCover(expansion, classifier, seed).choose();
}

}  // namespace cgconform::matrix
