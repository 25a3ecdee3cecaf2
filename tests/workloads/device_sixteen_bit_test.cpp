#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "workloads/device/sixteen_bit.hpp"

namespace cgconform::workloads::test {
namespace {

constexpr std::uint32_t pattern_count = 0x10000;

template <typename T>
T of_bits(std::uint32_t bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

template <typename T>
class SixteenBit : public ::testing::Test {};
using SixteenBitTypes = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(SixteenBit, SixteenBitTypes);

TYPED_TEST(SixteenBit, EveryNumberComesBackFromFp32) {
  for (std::uint32_t bits = 0; bits < pattern_count; ++bits) {
    const auto value = of_bits<TypeParam>(bits);
    if (std::isnan(float{value})) {
      EXPECT_EQ(TypeParam(float{value}).bits, 0x7FFF);
    } else {
      EXPECT_EQ(TypeParam(float{value}).bits, bits);
    }
  }
}

TYPED_TEST(SixteenBit, RoundsToTheNearestAndToEvenInTheMiddle) {
  for (std::uint32_t bits = 0; bits + 1 < pattern_count / 2; ++bits) {
    const float below = of_bits<TypeParam>(bits);
    const float above = of_bits<TypeParam>(bits + 1);
    if (!std::isfinite(above)) continue;
    const float middle = below + (above - below) / 2;
    EXPECT_EQ(TypeParam(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(TypeParam(std::nextafter(middle, 0.0F)).bits, bits);
    EXPECT_EQ(TypeParam(std::nextafter(middle, above)).bits, bits + 1);
    EXPECT_EQ(TypeParam(-std::nextafter(middle, above)).bits, (bits + 1) | 0x8000U);
  }
}

TEST(SixteenBitLimits, LargeNumbersBecomeInfinite) {
  EXPECT_EQ(float{Float16(65519.0F)}, 65504.0F);
  EXPECT_TRUE(std::isinf(float{Float16(65520.0F)}));
  EXPECT_TRUE(std::isinf(float{Float16(-1e9F)}));
  EXPECT_TRUE(std::isinf(float{BFloat16(std::numeric_limits<float>::max())}));
  EXPECT_TRUE(std::isnan(float{Float16(std::nanf(""))}));
}

TEST(SixteenBitLimits, SmallNumbersBecomeSubnormalOrZero) {
  EXPECT_EQ(float{Float16(0x1p-24F)}, 0x1p-24F);
  EXPECT_EQ(float{Float16(0x1p-25F)}, 0.0F);
  EXPECT_EQ(float{Float16(0x1.000002p-25F)}, 0x1p-24F);
  EXPECT_TRUE(std::signbit(float{Float16(-1e-30F)}));
}

}  // namespace
}  // namespace cgconform::workloads::test
