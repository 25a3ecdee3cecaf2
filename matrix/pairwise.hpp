#pragma once

#include <cstdint>
#include <vector>

#include "matrix/cell_classifier.hpp"
#include "matrix/expansion.hpp"

namespace cgconform::matrix {

/// Largest product of axes that `pairwise` accepts: it looks at every cell once to learn which
/// pairs are possible.
inline constexpr std::uint64_t maximum_pairwise_cells = std::uint64_t{1} << 26U;

/// Cells that together hold every possible pair of values of two axes, each time of two that a cell
/// holds which is neither refused nor a duplicate. Pairs that a running cell can hold are held by a
/// running cell. Greedy; the running cells come first, and in each part the order is by falling
/// gain of coverage.
/// With one axis or none, every such cell. The same seed gives the same cells. Throws InputError
/// above maximum_pairwise_cells.
std::vector<std::uint64_t> pairwise_cells(const Expansion& expansion, CellClassifier& classifier,
                                          std::uint64_t seed);

/// Numbers the pairs of values of two different axes of an expansion.
class PairNumbers {
 public:
  explicit PairNumbers(const Expansion& expansion);

  std::size_t count() const { return count_; }
  /// The number of the pair of values at positions `a` < `b` of Expansion::varying().
  std::size_t number(std::size_t a, std::uint32_t value_a, std::size_t b,
                     std::uint32_t value_b) const {
    return first_[a * axes_ + b] + value_a * sizes_[b] + value_b;
  }

  /// Calls `visit` with the number of each pair that the cell holds.
  template <typename Visit>
  void for_each(const Expansion& expansion, std::span<const std::uint32_t> coordinates,
                const Visit& visit) const {
    const std::span<const std::size_t> varying = expansion.varying();
    for (std::size_t a = 0; a < axes_; ++a) {
      for (std::size_t b = a + 1; b < axes_; ++b) {
        visit(number(a, coordinates[varying[a]], b, coordinates[varying[b]]));
      }
    }
  }

 private:
  std::size_t axes_ = 0;
  std::size_t count_ = 0;
  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> first_;
};

}  // namespace cgconform::matrix
