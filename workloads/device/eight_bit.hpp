#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace cgconform::workloads {

/// The 8-bit floating types of the OCP specification (FP8, 2023). Tensors of them are bytes; which
/// type a byte is of, the op that reads it knows.
enum class EightBitFormat : std::uint8_t {
  e4m3,  ///< 4 bits of exponent, 3 of mantissa; no infinity
  e5m2,  ///< 5 bits of exponent, 2 of mantissa
};

namespace eight_bit {

struct Layout {
  int mantissa_bits = 3;
  int bias = 7;
  float largest = 448.0F;
  std::uint8_t nan = 0x7FU;
};

constexpr Layout layout_of(EightBitFormat format) {
  if (format == EightBitFormat::e4m3) return {};
  return {.mantissa_bits = 2, .bias = 15, .largest = 57344.0F, .nan = 0x7FU};
}

constexpr std::uint8_t sign_bit = 0x80U;

/// Rounded to nearest even; what is too large becomes the largest finite number.
inline std::uint8_t bits_of(float value, EightBitFormat format) {
  const Layout layout = layout_of(format);
  if (std::isnan(value)) return layout.nan;
  const std::uint8_t sign = std::signbit(value) ? sign_bit : std::uint8_t{0};
  const float magnitude = std::min(std::abs(value), layout.largest);
  if (magnitude == 0.0F) return sign;
  const int smallest_exponent = 1 - layout.bias;
  const int exponent = std::max(std::ilogb(magnitude), smallest_exponent);
  // In units of the last place; exact, and rounded in the default mode, to nearest even. A carry
  // moves into the exponent by itself.
  const float units = std::nearbyint(std::scalbn(magnitude, layout.mantissa_bits - exponent));
  const int hidden = 1 << layout.mantissa_bits;
  const int code = (exponent - smallest_exponent) * hidden + static_cast<int>(units);
  return static_cast<std::uint8_t>(code | sign);
}

inline float value_of(std::uint8_t bits, EightBitFormat format) {
  const Layout layout = layout_of(format);
  const int hidden = 1 << layout.mantissa_bits;
  const int code = bits & 0x7F;
  const int exponent = code / hidden;
  const int mantissa = code % hidden;
  const bool top = exponent == 0x7F / hidden;
  float magnitude = 0.0F;
  if (format == EightBitFormat::e4m3 ? code == layout.nan : top && mantissa != 0) {
    magnitude = std::nanf("");
  } else if (format == EightBitFormat::e5m2 && top) {
    magnitude = HUGE_VALF;
  } else if (exponent == 0) {
    magnitude = std::scalbn(static_cast<float>(mantissa), 1 - layout.bias - layout.mantissa_bits);
  } else {
    magnitude = std::scalbn(static_cast<float>(mantissa + hidden),
                            exponent - layout.bias - layout.mantissa_bits);
  }
  return (bits & sign_bit) != 0 ? -magnitude : magnitude;
}

}  // namespace eight_bit

}  // namespace cgconform::workloads
