#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"

namespace cgconform::matrix {

/// One value of an axis: how ids and filters spell it and what it sets in a cell.
struct AxisValue {
  std::string token;             ///< canonical spelling, of `A-Z a-z 0-9 _ . + : -`
  std::optional<double> number;  ///< where the axis is ordered: what `<` and `>` compare
  std::function<void(Cell&)> apply;
};

/// One row of the axis table: an axis every matrix knows. Help, docs/matrix.md and messages derive
/// from it.
struct AxisDefinition {
  std::string_view name;
  std::vector<std::string_view> aliases;  ///< other names in matrix files and filters
  std::vector<std::string_view> fields;   ///< what its values set
  std::string_view summary;
  std::string_view default_token;
  std::vector<std::string_view> examples;  ///< values for help and suggestions
  bool closed = false;                     ///< `examples` are all values there are
  bool always_in_id = false;               ///< its part stands in every id, also at the default
  /// The value a spelling stands for; empty where the axis has no such value.
  std::optional<AxisValue> (*parse)(std::string_view token) = nullptr;
};

/// The axes in the fixed order of id parts and of enumeration, the slowest first.
std::span<const AxisDefinition> axis_table();

/// The row with that name or alias, or null.
const AxisDefinition* find_axis_definition(std::string_view name_or_alias);

/// An axis of one matrix: its values in order.
struct Axis {
  static constexpr std::uint32_t no_index = UINT32_MAX;

  std::string name;
  std::vector<std::string> aliases;
  std::vector<std::string> fields;
  std::vector<AxisValue> values;
  std::vector<std::string> known;  ///< further tokens that messages may suggest
  std::string default_token;       ///< the part of the value with this token is left out of ids
  std::uint32_t default_index = no_index;  ///< of that value; `no_index` where it is not listed
  bool always_in_id = false;
  /// Canonical spelling of a token of this axis; empty where it can be none.
  std::function<std::string(std::string_view)> canonical;

  bool ordered() const { return !values.empty() && values.front().number.has_value(); }
  /// Position of the value with that canonical token, or -1.
  std::int32_t find(std::string_view token) const;
  bool answers_to(std::string_view name_or_alias) const;
};

/// True where every character may stand in a token.
bool is_token(std::string_view text);

}  // namespace cgconform::matrix
