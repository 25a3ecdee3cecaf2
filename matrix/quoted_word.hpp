#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cgconform::matrix {

/// Words of an input are shortened to this many bytes in messages.
constexpr std::size_t longest_quoted_word = 60;

/// `word` in quotes for a message: shortened, with control characters replaced.
std::string quoted_word(std::string_view word);

}  // namespace cgconform::matrix
