#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace cgconform::matrix {

/// Edit distance with insertion, deletion, substitution and swap of neighbours; case is ignored.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known name closest to `name`, the first of equals; empty where none is near enough to be
/// what the user meant (more than a third of the letters differ and neither contains the other).
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

/// `; the nearest is 'NAME'`, or `; known are A, B, C` where none is near: the tail of a message.
/// Of many names it gives the first, and how many more there are.
std::string nearest_hint(std::string_view name, std::span<const std::string_view> known);

}  // namespace cgconform::matrix
