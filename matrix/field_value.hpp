#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cgconform::matrix {

/// A scalar of an input, whatever it was written in (JSON, YAML, arguments). `text` is borrowed.
struct FieldScalar {
  enum class Kind : std::uint8_t { null, boolean, integer, real, text };
  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string_view text;

  static FieldScalar of_boolean(bool value);
  static FieldScalar of_integer(std::int64_t value);
  static FieldScalar of_real(double value);
  static FieldScalar of_text(std::string_view value);
};

/// The value of a field: a scalar, or a flat list of scalars.
struct FieldValue {
  FieldScalar scalar;
  bool is_list = false;
  std::span<const FieldScalar> items;

  bool is_null() const { return !is_list && scalar.kind == FieldScalar::Kind::null; }
};

/// Reads a word as YAML's core schema does: null, true and false, integers, reals, else text.
/// Numbers out of range stay text, so that the field that needs a number refuses them.
FieldScalar plain_scalar(std::string_view word);

}  // namespace cgconform::matrix
