#include "matrix/expansion.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::matrix {

Expansion::Expansion(Matrix matrix) : matrix_(std::move(matrix)) {
  const std::vector<Axis>& list = *matrix_.axes;
  strides_.assign(list.size(), 1);
  for (std::size_t i = list.size(); i-- > 0;) {
    strides_[i] = size_;
    const std::uint64_t count = list[i].values.size();
    if (size_ > INT64_MAX / count) {
      throw InputError(
          fmt::format("{}: the axes multiply to more than {} cells; drop values or "
                      "split the matrix",
                      matrix_.source, INT64_MAX));
    }
    size_ *= count;
    if (count > 1) varying_.push_back(i);
  }
  std::reverse(varying_.begin(), varying_.end());
}

void Expansion::coordinates(std::uint64_t index, Coordinates& out) const {
  out.assign(axes().size(), 0);
  for (const std::size_t axis : varying_) {
    out[axis] = static_cast<std::uint32_t>(index / strides_[axis]);
    index %= strides_[axis];
  }
}

std::uint64_t Expansion::index_of(std::span<const std::uint32_t> coordinates) const {
  std::uint64_t index = 0;
  for (const std::size_t axis : varying_) index += coordinates[axis] * strides_[axis];
  return index;
}

void Expansion::fill(std::span<const std::uint32_t> coordinates, Cell& cell) const {
  cell = matrix_.base;
  for (const std::size_t axis : varying_) axes()[axis].values[coordinates[axis]].apply(cell);
  cell.index = index_of(coordinates);
}

Cell Expansion::cell(std::uint64_t index) const {
  Coordinates at;
  coordinates(index, at);
  Cell result;
  fill(at, result);
  return result;
}

CellName Expansion::name(std::uint64_t index) const {
  Coordinates at;
  coordinates(index, at);
  fmt::memory_buffer id;
  append_id(axes(), at, id);
  CellName name{fmt::to_string(id), {}};
  name.hash = hash_text(hash_id(name.id));
  return name;
}

std::optional<std::uint64_t> Expansion::find(std::string_view id) const {
  Coordinates at;
  for (const Axis& axis : axes()) at.push_back(axis.default_index);
  std::string_view rest = id;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view axis_name = part.substr(0, equals);
    std::size_t axis = 0;
    while (axis < axes().size() && axes()[axis].name != axis_name) ++axis;
    if (axis == axes().size()) return std::nullopt;
    const std::int32_t value = axes()[axis].find(part.substr(equals + 1));
    if (value < 0) return std::nullopt;
    at[axis] = static_cast<std::uint32_t>(value);
  }
  if (std::find(at.begin(), at.end(), Axis::no_index) != at.end()) return std::nullopt;
  const std::uint64_t index = index_of(at);
  return name(index).id == id ? std::optional(index) : std::nullopt;
}

bool Expansion::admits(std::span<const std::uint32_t> coordinates) const {
  // Most coordinates fail the first tests of an expression already.
  const auto selects = [&](const Filter& filter) {
    const std::vector<Filter>& conjuncts = filter.conjuncts();
    if (conjuncts.empty()) return filter.selects(coordinates);
    return std::all_of(conjuncts.begin(), conjuncts.end(),
                       [&](const Filter& part) { return part.selects(coordinates); });
  };
  const bool included = matrix_.include.empty() ||
                        std::any_of(matrix_.include.begin(), matrix_.include.end(), selects);
  return included && std::none_of(matrix_.exclude.begin(), matrix_.exclude.end(), selects);
}

Selection Expansion::admission(std::span<const std::uint32_t> coordinates, std::size_t known,
                               const Filter* filter) const {
  const auto any_of = [&](const std::vector<Filter>& filters) {
    Selection any = Selection::none;
    for (const Filter& one : filters) any = std::max(any, one.selection(coordinates, known));
    return any;
  };
  Selection admitted = matrix_.include.empty() ? Selection::all : any_of(matrix_.include);
  if (filter != nullptr) admitted = std::min(admitted, filter->selection(coordinates, known));
  if (admitted == Selection::none) return admitted;
  return std::min(admitted, opposite(any_of(matrix_.exclude)));
}

std::optional<std::uint64_t> Expansion::next_admitted(std::uint64_t index, Coordinates& out,
                                                      const Filter* filter) const {
  while (index < size_) {
    coordinates(index, out);
    if ((filter == nullptr || filter->selects(out)) && admits(out)) return index;
    // The fewest coordinates that rule the cell out rule out all the others that share them.
    std::size_t open = 0;
    std::size_t closed = axes().size();
    while (open + 1 < closed) {
      const std::size_t known = open + (closed - open) / 2;
      (admission(out, known, filter) == Selection::none ? closed : open) = known;
    }
    const std::uint64_t range = closed == 0 ? 1 : strides_[closed - 1];
    index = (index / range + 1) * range;
  }
  return std::nullopt;
}

}  // namespace cgconform::matrix
