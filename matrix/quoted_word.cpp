#include "matrix/quoted_word.hpp"

namespace cgconform::matrix {

std::string quoted_word(std::string_view word) {
  std::string text = "'";
  for (char c : word.substr(0, longest_quoted_word)) {
    const auto code = static_cast<unsigned char>(c);
    text += code < 0x20 || code == 0x7F ? '?' : c;
  }
  if (word.size() > longest_quoted_word) text += "...";
  return text + "'";
}

}  // namespace cgconform::matrix
