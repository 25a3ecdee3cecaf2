#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "matrix/axis.hpp"
#include "matrix/cell.hpp"

namespace cgconform::matrix {

/// Position of a value on each axis of a matrix, in the order of its axes.
using Coordinates = std::vector<std::uint32_t>;

/// Appends the id of a cell: `axis=value` parts in the fixed order of the axes, joined by `/`.
///
/// Rule of stability: an axis that stands at the matrix's default for it leaves its part out (the
/// default is what `defaults` of the matrix says, else the axis's own), except `impl` and `scope`,
/// which stand in every id. So neither a further value on an axis nor a further axis whose default
/// is the old behaviour changes the id, or the hash, of any other cell. A part names the value by
/// its token, never by its position.
void append_id(std::span<const Axis> axes, std::span<const std::uint32_t> coordinates,
               fmt::memory_buffer& out);

/// XXH3-64 of an id.
std::uint64_t hash_id(std::string_view id);

/// Sixteen hexadecimal digits.
std::string hash_text(std::uint64_t hash);

}  // namespace cgconform::matrix
