#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/axis.hpp"

namespace cgconform::matrix {

using AxisList = std::shared_ptr<const std::vector<Axis>>;

/// Whether cells are selected of which some coordinates are known; ordered, so that the smaller one
/// is the answer of `&` and the larger one that of `|`.
enum class Selection : std::uint8_t { none, some, all };

constexpr Selection opposite(Selection selection) {
  if (selection == Selection::some) return selection;
  return selection == Selection::none ? Selection::all : Selection::none;
}

/// A compiled expression over the axes of one matrix, such as `impl=local & pp>1 &
/// !recompute=full`.
///
///   expression := term { `|` term }          term := factor { `&` factor }
///   factor     := `!` factor | `(` expression `)` | test
///   test       := AXIS (`=` | `!=`) VALUE {`,` VALUE}  any of the values; `*` and `?` match any
///   text
///               | AXIS (`<` | `<=` | `>` | `>=`) NUMBER
///               | AXIS `has` PART                     a part of a value joined by `+`
///               | a cell id | the first digits, at least 6, of a cell's hash
///
/// A value also stands for its variants: `recompute=full` selects `full-uniform` and `full-block`.
/// Each test is a bit set over the values of one axis, so evaluation costs a few loads.
class Filter {
 public:
  /// Throws InputError with the column and the nearest axis or value. `place` begins the message.
  static Filter compile(std::string_view expression, const AxisList& axes, std::string_view place);

  bool selects(std::span<const std::uint32_t> coordinates) const;
  /// What can be said where only the first `known` coordinates are.
  Selection selection(std::span<const std::uint32_t> coordinates, std::size_t known) const;

  /// The operands of the outermost `&`, in order; the filter itself where there is none.
  const std::vector<Filter>& conjuncts() const { return conjuncts_; }
  const std::string& text() const { return text_; }

  enum class Operation : std::uint8_t { test, hash_prefix, negate, both, either };
  struct Instruction {
    Operation operation = Operation::test;
    std::uint32_t axis = 0;    ///< of a test
    std::vector<bool> values;  ///< of a test: the positions that pass
    std::string prefix;        ///< of a hash prefix
  };

 private:
  friend class FilterParser;
  AxisList axes_;
  std::string text_;
  std::vector<Instruction> program_;  ///< postfix
  std::vector<Filter> conjuncts_;
};

/// `pattern` with `*` (any text) and `?` (any character) against the whole of `text`.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace cgconform::matrix
