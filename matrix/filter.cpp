#include "matrix/filter.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "matrix/cell_name.hpp"
#include "matrix/error.hpp"
#include "matrix/filter_parser.hpp"

namespace cgconform::matrix {

Filter Filter::compile(std::string_view expression, const AxisList& axes, std::string_view place) {
  return FilterParser(expression, axes, place).parse();
}

bool Filter::selects(std::span<const std::uint32_t> coordinates) const {
  std::array<bool, FilterParser::maximum_depth + 1> stack{};
  std::size_t top = 0;
  for (const Instruction& step : program_) {
    switch (step.operation) {
      case Operation::test:
        stack[top++] = step.values[coordinates[step.axis]];
        break;
      case Operation::hash_prefix: {
        fmt::memory_buffer id;
        append_id(*axes_, coordinates, id);
        stack[top++] = hash_text(hash_id({id.data(), id.size()})).starts_with(step.prefix);
        break;
      }
      case Operation::negate:
        stack[top - 1] = !stack[top - 1];
        break;
      case Operation::both:
        --top;
        stack[top - 1] = stack[top - 1] && stack[top];
        break;
      case Operation::either:
        --top;
        stack[top - 1] = stack[top - 1] || stack[top];
        break;
    }
  }
  return stack[0];
}

Selection Filter::selection(std::span<const std::uint32_t> coordinates, std::size_t known) const {
  std::array<Selection, FilterParser::maximum_depth + 1> stack{};
  std::size_t top = 0;
  for (const Instruction& step : program_) {
    switch (step.operation) {
      case Operation::test:
        if (step.axis >= known) {
          stack[top++] = Selection::some;
        } else {
          stack[top++] = step.values[coordinates[step.axis]] ? Selection::all : Selection::none;
        }
        break;
      case Operation::hash_prefix:
        stack[top++] = Selection::some;
        break;
      case Operation::negate:
        stack[top - 1] = opposite(stack[top - 1]);
        break;
      case Operation::both:
        --top;
        stack[top - 1] = std::min(stack[top - 1], stack[top]);
        break;
      case Operation::either:
        --top;
        stack[top - 1] = std::max(stack[top - 1], stack[top]);
        break;
    }
  }
  return stack[0];
}

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace cgconform::matrix
