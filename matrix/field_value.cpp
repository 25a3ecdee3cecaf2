#include "matrix/field_value.hpp"

#include <charconv>
#include <system_error>

namespace cgconform::matrix {

namespace {

template <typename Number>
bool parse_whole(std::string_view word, Number& number) {
  const char* first = word.data();
  const char* last = first + word.size();
  if (word.size() > 1 && word.front() == '+') ++first;
  const auto [end, error] = std::from_chars(first, last, number);
  return error == std::errc() && end == last;
}

bool starts_like_a_number(std::string_view word) {
  return word.find_first_of("0123456789") != std::string_view::npos &&
         word.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
}

}  // namespace

FieldScalar FieldScalar::of_boolean(bool value) {
  FieldScalar scalar;
  scalar.kind = Kind::boolean;
  scalar.boolean = value;
  return scalar;
}

FieldScalar FieldScalar::of_integer(std::int64_t value) {
  FieldScalar scalar;
  scalar.kind = Kind::integer;
  scalar.integer = value;
  return scalar;
}

FieldScalar FieldScalar::of_real(double value) {
  FieldScalar scalar;
  scalar.kind = Kind::real;
  scalar.real = value;
  return scalar;
}

FieldScalar FieldScalar::of_text(std::string_view value) {
  FieldScalar scalar;
  scalar.kind = Kind::text;
  scalar.text = value;
  return scalar;
}

FieldScalar plain_scalar(std::string_view word) {
  if (word.empty() || word == "~" || word == "null" || word == "Null" || word == "NULL" ||
      word == "None") {
    return {};
  }
  if (word == "true" || word == "True" || word == "TRUE") return FieldScalar::of_boolean(true);
  if (word == "false" || word == "False" || word == "FALSE") return FieldScalar::of_boolean(false);
  if (starts_like_a_number(word)) {
    std::int64_t integer = 0;
    if (parse_whole(word, integer)) return FieldScalar::of_integer(integer);
    double real = 0;
    if (parse_whole(word, real)) return FieldScalar::of_real(real);
  }
  return FieldScalar::of_text(word);
}

}  // namespace cgconform::matrix
