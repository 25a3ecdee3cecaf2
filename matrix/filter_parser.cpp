#include "matrix/filter_parser.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"

namespace cgconform::matrix {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_.+:*?-").find(c) != std::string_view::npos;
}

bool is_hash_prefix(std::string_view word) {
  return word.size() >= 6 && word.size() <= 16 && std::all_of(word.begin(), word.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

/// True where `token` is `value` with more detail: `full-uniform:2` is a `full`.
bool is_variant(std::string_view token, std::string_view value) {
  return token.size() > value.size() && token.starts_with(value) &&
         (token[value.size()] == '-' || token[value.size()] == ':');
}

std::vector<std::string_view> suggestions(const Axis& axis) {
  std::vector<std::string_view> known;
  for (const AxisValue& value : axis.values) known.emplace_back(value.token);
  for (const std::string& token : axis.known) {
    if (axis.find(token) < 0) known.emplace_back(token);
  }
  return known;
}

bool compares(double a, std::string_view comparator, double b) {
  if (comparator == "<") return a < b;
  if (comparator == "<=") return a <= b;
  if (comparator == ">") return a > b;
  return a >= b;
}

}  // namespace

FilterParser::FilterParser(std::string_view expression, const AxisList& axes,
                           std::string_view place)
    : text_(expression), axes_(axes), place_(place) {}

Filter FilterParser::parse() {
  skip_space();
  if (at_ == text_.size()) fail(0, "the expression is empty");
  expression();
  skip_space();
  if (at_ < text_.size()) {
    fail(at_, text_[at_] == ')' ? "')' closes nothing" : "expected '&', '|' or the end");
  }
  filter_.axes_ = axes_;
  filter_.text_ = std::string(text_);
  if (filter_.conjuncts_.size() < 2) filter_.conjuncts_.clear();
  return std::move(filter_);
}

void FilterParser::expression() {
  term(nesting_ == 0);
  while (accept("||") || accept("|")) {
    if (nesting_ == 0) filter_.conjuncts_.clear();
    term(false);
    emit(Filter::Operation::either);
  }
}

void FilterParser::term(bool outermost) {
  bool first = true;
  do {
    skip_space();
    const std::size_t text_start = at_;
    const std::size_t program_start = filter_.program_.size();
    factor();
    if (outermost) keep_conjunct(program_start, text_start);
    if (!first) emit(Filter::Operation::both);
    first = false;
  } while (accept("&&") || accept("&"));
}

void FilterParser::keep_conjunct(std::size_t program_start, std::size_t text_start) {
  Filter conjunct;
  conjunct.axes_ = axes_;
  conjunct.text_ = std::string(text_.substr(text_start, at_ - text_start));
  conjunct.program_.assign(filter_.program_.begin() + static_cast<std::ptrdiff_t>(program_start),
                           filter_.program_.end());
  filter_.conjuncts_.push_back(std::move(conjunct));
}

void FilterParser::factor() {
  if (nesting_ == maximum_depth) fail(at_, "the expression is nested too deeply");
  ++nesting_;
  if (accept("!")) {
    factor();
    emit(Filter::Operation::negate);
  } else if (accept("(")) {
    const std::size_t open = at_ - 1;
    expression();
    if (!accept(")")) fail(open, "'(' is never closed");
  } else {
    test();
  }
  --nesting_;
}

void FilterParser::test() {
  skip_space();
  const std::size_t start = at_;
  const std::string_view name = word();
  if (name.empty()) {
    fail(start, at_ == text_.size() ? "expected an axis, a cell id or '(' before the end"
                                    : "expected an axis, a cell id or '('");
  }
  const std::string_view symbol = comparator();
  if (symbol == "=") {
    std::size_t end = at_;
    while (end < text_.size() && is_word_character(text_[end])) ++end;
    if (end < text_.size() && text_[end] == '/') return cell_id(start);
  }
  if (symbol.empty() && is_hash_prefix(name)) {
    emit(Filter::Operation::hash_prefix);
    filter_.program_.back().prefix = std::string(name);
    return;
  }
  const std::size_t index = axis_index(name, start);
  if (symbol.empty()) {
    fail(at_, fmt::format("expected =, !=, <, <=, >, >= or 'has' after '{}'", name));
  }
  comparison((*axes_)[index], index, symbol);
}

void FilterParser::comparison(const Axis& axis, std::size_t index, std::string_view symbol) {
  std::vector<bool> passing(axis.values.size(), false);
  do {
    skip_space();
    const std::size_t column = at_;
    const std::string_view value = word();
    if (value.empty()) fail(column, fmt::format("expected a value of axis '{}'", axis.name));
    if (symbol == "=" || symbol == "!=") {
      const std::vector<bool> matched = matching(axis, value, column);
      for (std::size_t i = 0; i < passing.size(); ++i) passing[i] = passing[i] || matched[i];
    } else if (symbol == "has") {
      for (std::size_t i = 0; i < passing.size(); ++i) {
        const std::string joined = fmt::format("+{}+", axis.values[i].token);
        if (joined.find(fmt::format("+{}+", value)) != std::string::npos) passing[i] = true;
      }
      if (axis.canonical && axis.canonical(value).empty()) {
        fail(column, fmt::format("axis '{}' has no part '{}'{}", axis.name, value,
                                 nearest_hint(value, suggestions(axis))));
      }
    } else {
      double bound = 0.0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bound);
      if (!axis.ordered()) {
        fail(column, fmt::format("axis '{}' has no order; use = or !=", axis.name));
      }
      if (error != std::errc() || end != value.data() + value.size()) {
        fail(column, fmt::format("'{}' is no number, which '{}' needs", value, symbol));
      }
      for (std::size_t i = 0; i < passing.size(); ++i) {
        const std::optional<double> number = axis.values[i].number;
        passing[i] = number && compares(*number, symbol, bound);
      }
    }
  } while ((symbol == "=" || symbol == "!=" || symbol == "has") && accept(","));
  if (symbol == "!=") passing.flip();
  emit_test(index, std::move(passing));
}

void FilterParser::cell_id(std::size_t start) {
  at_ = start;
  std::vector<std::uint32_t> wanted;
  for (const Axis& axis : *axes_) wanted.push_back(axis.default_index);
  bool last = false;
  while (!last) {
    const std::size_t column = at_;
    const std::string_view name = word();
    const std::size_t index = axis_index(name, column);
    if (!accept("=")) fail(at_, fmt::format("expected '=' after '{}' of a cell id", name));
    const Axis& axis = (*axes_)[index];
    const std::size_t value_column = at_;
    const std::string_view value = word();
    const std::int32_t position = axis.find(value);
    if (position < 0) {
      fail(value_column, fmt::format("the matrix has no cell with {}={}{}", name, value,
                                     nearest_hint(value, suggestions(axis))));
    }
    wanted[index] = static_cast<std::uint32_t>(position);
    last = at_ == text_.size() || text_[at_] != '/';
    if (!last) ++at_;
  }
  bool first = true;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Axis& axis = (*axes_)[i];
    if (wanted[i] == Axis::no_index) {
      fail(start, fmt::format("the matrix does not list the default {} of axis '{}'",
                              axis.default_token, axis.name));
    }
    if (axis.values.size() == 1) continue;
    std::vector<bool> passing(axis.values.size(), false);
    passing[wanted[i]] = true;
    emit_test(i, std::move(passing));
    if (!first) emit(Filter::Operation::both);
    first = false;
  }
  if (first) emit_test(0, std::vector<bool>((*axes_)[0].values.size(), true));
}

std::vector<bool> FilterParser::matching(const Axis& axis, std::string_view value,
                                         std::size_t column) const {
  std::vector<bool> passing(axis.values.size(), false);
  if (value.find_first_of("*?") != std::string_view::npos) {
    for (std::size_t i = 0; i < passing.size(); ++i) {
      passing[i] = glob_match(value, axis.values[i].token);
    }
    return passing;
  }
  const std::string canonical = axis.canonical ? axis.canonical(value) : std::string();
  bool sensible = !canonical.empty();
  for (std::size_t i = 0; i < passing.size(); ++i) {
    const std::string& token = axis.values[i].token;
    passing[i] = token == value || token == canonical || is_variant(token, value);
    sensible = sensible || passing[i];
  }
  for (const std::string& token : axis.known) sensible = sensible || is_variant(token, value);
  if (!sensible) {
    fail(column, fmt::format("axis '{}' has no value '{}'{}", axis.name, value,
                             nearest_hint(value, suggestions(axis))));
  }
  return passing;
}

std::size_t FilterParser::axis_index(std::string_view name, std::size_t column) const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < axes_->size(); ++i) {
    if ((*axes_)[i].answers_to(name)) return i;
    names.emplace_back((*axes_)[i].name);
    names.insert(names.end(), (*axes_)[i].aliases.begin(), (*axes_)[i].aliases.end());
  }
  fail(column, fmt::format("unknown axis '{}'{}", name, nearest_hint(name, names)));
}

void FilterParser::emit(Filter::Operation operation) {
  const bool operand =
      operation == Filter::Operation::test || operation == Filter::Operation::hash_prefix;
  const bool binary =
      operation == Filter::Operation::both || operation == Filter::Operation::either;
  if (operand && ++pending_ > maximum_depth) fail(at_, "the expression is nested too deeply");
  if (binary) --pending_;
  filter_.program_.push_back({});
  filter_.program_.back().operation = operation;
}

void FilterParser::emit_test(std::size_t index, std::vector<bool> values) {
  emit(Filter::Operation::test);
  filter_.program_.back().axis = static_cast<std::uint32_t>(index);
  filter_.program_.back().values = std::move(values);
}

bool FilterParser::accept(std::string_view symbol) {
  skip_space();
  if (!text_.substr(at_).starts_with(symbol)) return false;
  at_ += symbol.size();
  return true;
}

std::string_view FilterParser::word() {
  const std::size_t start = at_;
  while (at_ < text_.size() && is_word_character(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

std::string_view FilterParser::comparator() {
  for (const std::string_view symbol : {"!=", "<=", ">=", "==", "=", "<", ">"}) {
    if (accept(symbol)) return symbol == "==" ? std::string_view("=") : symbol;
  }
  const std::size_t before = at_;
  skip_space();
  if (word() == "has") return "has";
  at_ = before;
  return {};
}

void FilterParser::skip_space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) {
    ++at_;
  }
}

void FilterParser::fail(std::size_t column, std::string_view reason) const {
  std::string shown(text_);
  std::replace(shown.begin(), shown.end(), '\n', ' ');
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  throw InputError(fmt::format("{}, column {}: {}\n  {}\n  {:>{}}", place_, column + 1, reason,
                               shown, '^', column + 1));
}

}  // namespace cgconform::matrix
