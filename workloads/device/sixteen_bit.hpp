#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace cgconform::workloads {

/// The 16-bit floating types on the host, rounded to nearest even as the device does. They are
/// storage: arithmetic happens in fp32. A NaN becomes the device's own, 0x7FFF.
namespace sixteen_bit {

constexpr std::uint32_t sign_mask = 0x80000000U;
constexpr std::uint32_t infinity_bits = 0x7F800000U;
constexpr std::uint16_t nan_bits = 0x7FFFU;

/// `value` / 2^`shift`, rounded to nearest even.
constexpr std::uint32_t rounded_shift(std::uint32_t value, std::uint32_t shift) {
  const std::uint32_t below_half = (1U << (shift - 1)) - 1;
  return (value + below_half + ((value >> shift) & 1U)) >> shift;
}

constexpr std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & ~sign_mask) > infinity_bits) return nan_bits;
  return static_cast<std::uint16_t>(rounded_shift(bits & ~sign_mask, 16) |
                                    ((bits & sign_mask) >> 16));
}

constexpr std::uint16_t fp16_bits(float value) {
  constexpr std::uint32_t smallest_normal = 0x38800000U;  // 2^-14
  constexpr std::uint32_t beyond_largest = 0x47800000U;   // 2^16
  constexpr std::uint32_t half_smallest = 0x33000000U;    // 2^-25, which rounds to 0
  constexpr std::uint32_t rebias = 112U << 23;            // exponents are biased by 15, not by 127
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & sign_mask) >> 16;
  const std::uint32_t magnitude = bits & ~sign_mask;
  if (magnitude > infinity_bits) return nan_bits;
  std::uint32_t result = 0x7C00U;
  if (magnitude <= half_smallest) {
    result = 0;
  } else if (magnitude < smallest_normal) {
    const std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
    result = rounded_shift(mantissa, 126 - (magnitude >> 23));
  } else if (magnitude < beyond_largest) {
    result = rounded_shift(magnitude - rebias, 13);
  }
  return static_cast<std::uint16_t>(result | sign);
}

constexpr float fp16_value(std::uint16_t bits) {
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000U) << 16;
  const std::uint32_t exponent = (std::uint32_t{bits} >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {
    constexpr float unit = 1.0F / 16777216.0F;  // 2^-24
    const float magnitude = static_cast<float>(mantissa) * unit;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 0x1FU ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

}  // namespace sixteen_bit

struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  constexpr explicit BFloat16(float value) : bits(sixteen_bit::bf16_bits(value)) {}
  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  constexpr explicit Float16(float value) : bits(sixteen_bit::fp16_bits(value)) {}
  constexpr operator float() const { return sixteen_bit::fp16_value(bits); }
};

template <typename T>
constexpr bool is_sixteen_bit = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// What is computed in for elements of type T: fp32 for the 16-bit types, T itself for others.
template <typename T>
using Arithmetic = std::conditional_t<is_sixteen_bit<T>, float, T>;

}  // namespace cgconform::workloads
