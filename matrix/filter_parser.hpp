#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "matrix/filter.hpp"

namespace cgconform::matrix {

/// Recursive-descent parser from an expression to the program of a Filter; see filter.hpp for the
/// grammar. One object parses one expression.
class FilterParser {
 public:
  /// Deepest nesting and longest chain of pending operands accepted.
  static constexpr std::size_t maximum_depth = 64;

  FilterParser(std::string_view expression, const AxisList& axes, std::string_view place);
  Filter parse();

 private:
  void expression();
  void term(bool outermost);
  void factor();
  void test();
  void cell_id(std::size_t start);
  void comparison(const Axis& axis, std::size_t axis_index, std::string_view comparator);
  void emit(Filter::Operation operation);
  void emit_test(std::size_t axis_index, std::vector<bool> values);

  std::vector<bool> matching(const Axis& axis, std::string_view value, std::size_t column) const;
  std::size_t axis_index(std::string_view name, std::size_t column) const;
  void keep_conjunct(std::size_t program_start, std::size_t text_start);

  bool accept(std::string_view symbol);
  std::string_view word();
  std::string_view comparator();
  void skip_space();
  [[noreturn]] void fail(std::size_t column, std::string_view reason) const;

  std::string_view text_;
  AxisList axes_;
  std::string place_;
  std::size_t at_ = 0;
  std::size_t nesting_ = 0;
  std::size_t pending_ = 0;
  Filter filter_;
};

}  // namespace cgconform::matrix
