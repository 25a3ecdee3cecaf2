#pragma once

#include <cstdint>
#include <vector>

#include "matrix/cell_classifier.hpp"
#include "matrix/expansion.hpp"

namespace cgconform::matrix {

/// Widest tuples that `t-wise:N` takes.
inline constexpr std::int32_t widest_tuples = 6;
/// Largest product of axes that `t-wise` accepts: it looks at every cell once to learn which tuples
/// are possible.
inline constexpr std::uint64_t most_covered_cells = std::uint64_t{1} << 26U;
/// Most tuples of values that it accepts; its memory is a few bytes for each, whatever the cells.
inline constexpr std::uint64_t most_covered_tuples = std::uint64_t{1} << 23U;

/// Cells that together hold every possible tuple of values of as many axes as the matrix's strategy
/// says, each time of those that a cell holds which is neither refused nor a duplicate. Tuples that
/// a running cell can hold are held by a running cell. Greedy; the running cells come first, and in
/// each part the order is by falling gain of coverage. With fewer axes than that, every such cell.
/// The same seed gives the same cells. Throws InputError above the limits.
std::vector<std::uint64_t> covering_cells(const Expansion& expansion, CellClassifier& classifier,
                                          std::uint64_t seed);

}  // namespace cgconform::matrix
