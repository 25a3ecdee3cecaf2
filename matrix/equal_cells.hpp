#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "matrix/built_features.hpp"
#include "matrix/constraint_engine.hpp"
#include "matrix/expansion.hpp"

namespace cgconform::matrix {

/// A reason why several values of some fields make the same run. The table says only where to look;
/// whether two cells are equal is always decided by their canonical forms.
struct Collapse {
  std::string_view reason;
  bool device_bound = false;  ///< the device lacks what the fields set
  std::vector<std::string_view> fields;
  bool (*applies)(const Cell& normalised, TargetDevice device);
};

std::span<const Collapse> collapse_table();

/// Turns a normalised cell into its canonical form: fields without effect get their defaults.
/// Two cells make the same run exactly where their canonical forms are equal, index aside.
void make_canonical(Cell& normalised, TargetDevice device);

/// Equality of everything but the index.
bool same_run(const Cell& a, const Cell& b);

/// The ruleset's normalisation of a cell; `evaluation` is scratch and keeps the violations.
void normalise(const Cell& cell, Evaluation& evaluation, Cell& normalised);

/// Enumerates, in index order, the cells that may equal a given one. A collapse acts on one axis at
/// a time; of equal cells that several axes part together, those parted by deprecated spellings of
/// the implementation are found, others would run twice. Flat memory: for each set of
/// collapses it keeps which values of each axis fall together.
class EqualCells {
 public:
  EqualCells(const Expansion& expansion, TargetDevice device);

  /// Calls `accept` with the coordinates of each candidate before the given cell, in index order,
  /// until it returns true; returns whether it did. A cell spelt in deprecated words also meets the
  /// cell in current words, wherever that stands. `normalised` is the given cell normalised.
  bool find_first(std::span<const std::uint32_t> coordinates, const Cell& cell,
                  const Cell& normalised, Coordinates& candidate,
                  const std::function<bool(std::span<const std::uint32_t>)>& accept);

  /// True where the two equal cells differ on an axis that only the device makes of no effect.
  bool differ_by_device(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
                        const Cell& normalised) const;

 private:
  /// For each axis, for each value, the values that fall together with it, ascending; an axis
  /// without collapse has no entry.
  using ValueClasses = std::vector<std::vector<std::vector<std::uint32_t>>>;

  std::uint32_t applying(const Cell& normalised) const;
  const ValueClasses& classes(std::uint32_t collapses, std::span<const std::uint32_t> coordinates);
  std::vector<std::vector<std::uint32_t>> classes_of_axis(
      std::size_t axis, std::span<const std::uint32_t> coordinates);
  bool respell(const Cell& normalised, std::span<std::uint32_t> coordinates) const;

  const Expansion& expansion_;
  TargetDevice device_;
  std::vector<std::uint32_t> axis_collapses_;  ///< for each axis, the collapses that touch it
  std::map<std::uint32_t, ValueClasses> known_;
  std::vector<std::size_t> spelling_axes_;  ///< axes that deprecated spellings set
};

}  // namespace cgconform::matrix
