#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"
#include "matrix/cell_name.hpp"
#include "matrix/matrix.hpp"

namespace cgconform::matrix {

/// The cells of a matrix by index, without keeping any: the index counts the product of the axes as
/// a mixed-radix number, the first axis slowest. Random access, flat memory.
class Expansion {
 public:
  /// Throws InputError where the product has more cells than 64 bits count.
  explicit Expansion(Matrix matrix);

  const Matrix& matrix() const { return matrix_; }
  std::span<const Axis> axes() const { return *matrix_.axes; }

  /// Size of the product, before include and exclude.
  std::uint64_t size() const { return size_; }

  void coordinates(std::uint64_t index, Coordinates& out) const;
  std::uint64_t index_of(std::span<const std::uint32_t> coordinates) const;

  /// Writes the cell at these coordinates over `cell`, its index included.
  void fill(std::span<const std::uint32_t> coordinates, Cell& cell) const;
  Cell cell(std::uint64_t index) const;

  CellName name(std::uint64_t index) const;
  /// The index of the cell with this id, as written by name().
  std::optional<std::uint64_t> find(std::string_view id) const;

  /// True where include and exclude of the matrix let the cell in.
  bool admits(std::span<const std::uint32_t> coordinates) const;

  /// The first cell from `index` on that include and exclude let in and that `filter`, where there
  /// is one, selects; its coordinates in `out`. Whole ranges that cannot hold one are passed over,
  /// so that a matrix costs what it selects, not what its axes multiply to.
  std::optional<std::uint64_t> next_admitted(std::uint64_t index, Coordinates& out,
                                             const Filter* filter = nullptr) const;

  /// Positions of the axes with more than one value.
  std::span<const std::size_t> varying() const { return varying_; }
  /// How many cells an axis's value spans before it changes.
  std::uint64_t stride(std::size_t axis) const { return strides_[axis]; }

 private:
  /// How many of the cells that share the first `known` coordinates next_admitted() may give.
  Selection admission(std::span<const std::uint32_t> coordinates, std::size_t known,
                      const Filter* filter) const;

  Matrix matrix_;
  std::vector<std::size_t> varying_;
  std::vector<std::uint64_t> strides_;
  std::uint64_t size_ = 1;
};

}  // namespace cgconform::matrix
