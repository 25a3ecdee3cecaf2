#pragma once

#include <cstdint>

namespace cgconform::matrix {

/// The part of the cells that one of several runs takes. A cell belongs to a shard by the hash of
/// its id alone, so neither a filter nor further cells move it to another.
struct Shard {
  std::uint32_t index = 1;  ///< from 1 on
  std::uint32_t count = 1;
  bool holds(std::uint64_t hash) const { return hash % count == index - 1; }
};

/// The seed of a round of a run that repeats its cells: the run's own in the first round, and one
/// derived from it in each later one.
std::uint64_t round_seed(std::uint64_t seed, std::uint64_t round);

/// A permutation of the numbers below `count` by seed, computed number by number without keeping
/// any.
class ShuffledOrder {
 public:
  ShuffledOrder(std::uint64_t count, std::uint64_t seed);
  /// The number at a place.
  std::uint64_t operator[](std::uint64_t place) const;

 private:
  std::uint64_t count_;
  std::uint64_t seed_;
  std::uint32_t half_bits_ = 1;
};

}  // namespace cgconform::matrix
