#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/host_stream.hpp"
#include "tests/workloads/host_tensor.hpp"
#include "workloads/ops/verification.hpp"

namespace cgconform::workloads::test {
namespace {

constexpr CompareParams bitwise{};

constexpr CompareParams within(double relative, double absolute = 0.0) {
  return {.bitwise = false, .relative = relative, .absolute = absolute};
}

template <typename T>
CompareOutcome outcome_of(HostTensor<T> expected, HostTensor<T> actual,
                          const CompareParams& params) {
  HostStream stream;
  CompareOutcome outcome;
  const TensorView memory{&outcome, DType::uint8, Shape{std::int64_t{sizeof(outcome)}}};
  compare(stream, memory, expected.view(), actual.view(), params, "compare");
  return outcome;
}

template <typename T>
CompareOutcome outcome_of(std::vector<T> expected, std::vector<T> actual,
                          const CompareParams& params) {
  const Shape shape{static_cast<std::int64_t>(expected.size())};
  return outcome_of(HostTensor<T>(shape, std::move(expected)),
                    HostTensor<T>(shape, std::move(actual)), params);
}

/// The value `steps` representable numbers above `value`.
template <typename T>
T ulps_above(T value, int steps) {
  for (int i = 0; i < steps; ++i) value = std::nextafter(value, std::numeric_limits<T>::max());
  return value;
}

template <typename T>
class CompareFloating : public ::testing::Test {
 protected:
  static constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr T largest = std::numeric_limits<T>::max();
};
using FloatingTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CompareFloating, FloatingTypes);

TYPED_TEST(CompareFloating, EqualTensorsHaveNoBadElement) {
  using T = TypeParam;
  const auto outcome =
      outcome_of<T>({1, this->nan, this->infinity}, {1, this->nan, this->infinity}, bitwise);
  EXPECT_EQ(outcome.element_count, 3);
  EXPECT_EQ(outcome.bad_count, 0);
  EXPECT_EQ(outcome.first_bad_index, -1);
  EXPECT_EQ(outcome.max_abs, 0.0);
  EXPECT_EQ(outcome.max_ulp, 0);
}

TYPED_TEST(CompareFloating, CountsBadElementsAndNamesTheFirst) {
  using T = TypeParam;
  const auto outcome = outcome_of<T>({1, 2, 4, 8}, {1, 3, 4, 4}, bitwise);
  EXPECT_EQ(outcome.bad_count, 2);
  EXPECT_EQ(outcome.first_bad_index, 1);
  EXPECT_EQ(outcome.expected, 2.0);
  EXPECT_EQ(outcome.actual, 3.0);
  EXPECT_EQ(outcome.max_abs, 4.0);
  EXPECT_EQ(outcome.max_rel, 0.5);
}

TYPED_TEST(CompareFloating, NanAgainstANumberIsBadInEveryModeAndDirection) {
  using T = TypeParam;
  for (const CompareParams& params : {bitwise, within(1e30, 1e30)}) {
    const auto outcome = outcome_of<T>({1, this->nan}, {this->nan, 1}, params);
    EXPECT_EQ(outcome.bad_count, 2);
    EXPECT_EQ(outcome.nan_mismatch_count, 2);
    EXPECT_EQ(outcome.first_bad_index, 0);
    EXPECT_TRUE(std::isinf(outcome.max_abs));
    EXPECT_TRUE(std::isinf(outcome.max_rel));
  }
}

TYPED_TEST(CompareFloating, NanPayloadsCountBitForBitOnly) {
  using T = TypeParam;
  T other = this->nan;
  auto* byte = reinterpret_cast<unsigned char*>(&other);
  byte[0] = static_cast<unsigned char>(byte[0] ^ 1U);
  ASSERT_TRUE(std::isnan(other));
  EXPECT_EQ(outcome_of<T>({this->nan}, {other}, bitwise).bad_count, 1);
  EXPECT_EQ(outcome_of<T>({this->nan}, {other}, bitwise).nan_mismatch_count, 0);
  EXPECT_EQ(outcome_of<T>({this->nan}, {other}, within(0)).bad_count, 0);
}

TYPED_TEST(CompareFloating, InfinityIsCloseToTheSameInfinityOnly) {
  using T = TypeParam;
  const T endless = this->infinity;
  const auto loose = within(1e30, 1e30);
  EXPECT_EQ(outcome_of<T>({endless, -endless}, {endless, -endless}, loose).bad_count, 0);
  EXPECT_EQ(outcome_of<T>({endless, -endless}, {-endless, endless}, loose).bad_count, 2);
  EXPECT_EQ(outcome_of<T>({endless, 1}, {this->largest, endless}, loose).bad_count, 2);
}

TYPED_TEST(CompareFloating, ZerosOfOtherSignDifferBitForBitOnly) {
  using T = TypeParam;
  EXPECT_EQ(outcome_of<T>({T{0}}, {-T{0}}, bitwise).bad_count, 1);
  EXPECT_EQ(outcome_of<T>({T{0}}, {-T{0}}, bitwise).max_abs, 0.0);
  EXPECT_EQ(outcome_of<T>({T{0}}, {-T{0}}, within(0)).bad_count, 0);
}

TYPED_TEST(CompareFloating, OneUlpOutsideTheToleranceIsBad) {
  using T = TypeParam;
  const double ulp = std::numeric_limits<T>::epsilon();
  EXPECT_EQ(outcome_of<T>({1}, {ulps_above(T{1}, 1)}, bitwise).bad_count, 1);
  EXPECT_EQ(outcome_of<T>({1}, {ulps_above(T{1}, 8)}, within(8 * ulp)).bad_count, 0);
  EXPECT_EQ(outcome_of<T>({1}, {ulps_above(T{1}, 9)}, within(8 * ulp)).bad_count, 1);
  EXPECT_EQ(outcome_of<T>({1}, {ulps_above(T{1}, 9)}, within(0, 8 * ulp)).bad_count, 1);
  EXPECT_EQ(outcome_of<T>({1}, {ulps_above(T{1}, 9)}, within(8 * ulp)).max_ulp, 9);
}

TYPED_TEST(CompareFloating, TheToleranceIsRelativeToTheExpectedValue) {
  using T = TypeParam;
  EXPECT_EQ(outcome_of<T>({100}, {110}, within(0.1)).bad_count, 0);
  EXPECT_EQ(outcome_of<T>({0}, {T(1e-6)}, within(0.5)).bad_count, 1);
  EXPECT_EQ(outcome_of<T>({0}, {T(1e-6)}, within(0.5, 1e-5)).bad_count, 0);
}

TYPED_TEST(CompareFloating, UlpsAreCountedAcrossZero) {
  using T = TypeParam;
  const T tiny = std::numeric_limits<T>::denorm_min();
  EXPECT_EQ(outcome_of<T>({-tiny}, {tiny}, bitwise).max_ulp, 2);
}

TYPED_TEST(CompareFloating, EmptyTensorsAreEqualAndCountNothing) {
  using T = TypeParam;
  const auto outcome = outcome_of<T>(std::vector<T>{}, std::vector<T>{}, bitwise);
  EXPECT_EQ(outcome.element_count, 0);
  EXPECT_EQ(outcome.bad_count, 0);
}

TYPED_TEST(CompareFloating, AnyFlippedBitIsFoundBitForBit) {
  using T = TypeParam;
  for (std::size_t bit = 0; bit < 8 * sizeof(T); ++bit) {
    T value{1};
    auto* bytes = reinterpret_cast<unsigned char*>(&value);
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1U << (bit % 8)));
    EXPECT_EQ(outcome_of<T>({1, 1, 1}, {1, 1, value}, bitwise).first_bad_index, 2) << bit;
  }
}

TEST(Compare, RefusesOtherShapesAndTypes) {
  EXPECT_THROW(outcome_of(HostTensor<float>(Shape{2, 3}), HostTensor<float>(Shape{3, 2}), bitwise),
               InternalError);
  HostStream stream;
  HostTensor<float> narrow(Shape{2});
  HostTensor<double> wide(Shape{2});
  CompareOutcome outcome;
  const TensorView memory{&outcome, DType::uint8, Shape{std::int64_t{sizeof(outcome)}}};
  EXPECT_THROW(compare(stream, memory, narrow.view(), wide.view(), bitwise, "compare"),
               InternalError);
  EXPECT_THROW(compare(stream, wide.view(), narrow.view(), narrow.view(), bitwise, "compare"),
               InternalError);
}

TEST(Compare, ComparesIntegersExactly) {
  EXPECT_EQ(outcome_of<std::int64_t>({1, -5}, {1, -4}, within(1.0, 1.0)).first_bad_index, 1);
  EXPECT_EQ(outcome_of<std::uint8_t>({1, 0, 1}, {1, 1, 1}, bitwise).bad_count, 1);
  EXPECT_EQ(outcome_of<std::uint64_t>({~0ULL}, {~0ULL - 1}, bitwise).bad_count, 1);
  EXPECT_EQ(outcome_of<std::int32_t>({7}, {7}, bitwise).bad_count, 0);
}

template <typename T>
std::uint64_t checksum_of(std::vector<T> values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  HostTensor<T> tensor(shape, std::move(values));
  HostTensor<std::uint64_t> cell(Shape{1});
  HostStream stream;
  checksum(stream, cell.view(), tensor.view(), "checksum");
  return cell[0];
}

TEST(Checksum, DependsOnTheBytesAlone) {
  EXPECT_EQ(checksum_of<float>({1, 2, 3}), checksum_of<float>({1, 2, 3}));
}

TEST(Checksum, ChangesWithEveryBit) {
  constexpr std::size_t length = 21;
  std::set<std::uint64_t> seen{checksum_of(std::vector<std::uint8_t>(length))};
  for (std::size_t bit = 0; bit < 8 * length; ++bit) {
    std::vector<std::uint8_t> bytes(length);
    bytes[bit / 8] = static_cast<std::uint8_t>(1U << (bit % 8));
    EXPECT_TRUE(seen.insert(checksum_of(bytes)).second) << "bit " << bit;
  }
}

TEST(Checksum, ChangesWithOrderAndLength) {
  EXPECT_NE(checksum_of<double>({1, 2}), checksum_of<double>({2, 1}));
  EXPECT_NE(checksum_of<float>({1, 2, 3, 4}), checksum_of<float>({3, 4, 1, 2}));
  std::set<std::uint64_t> lengths;
  for (std::size_t length = 0; length < 20; ++length) {
    EXPECT_TRUE(lengths.insert(checksum_of(std::vector<std::uint8_t>(length))).second) << length;
  }
}

TEST(Checksum, TellsZerosOfOtherSignApart) {
  EXPECT_NE(checksum_of<float>({0.0F}), checksum_of<float>({-0.0F}));
}

std::array<std::byte, sizeof(CompareOutcome)> bytes_of(const CompareOutcome& outcome) {
  std::array<std::byte, sizeof(CompareOutcome)> bytes{};
  std::memcpy(bytes.data(), &outcome, sizeof(outcome));
  return bytes;
}

TEST(ManyTensorsInACall, AreComparedAsOneByOne) {
  HostTensor<float> one(Shape{3}, {1, 2, 3});
  HostTensor<float> other(Shape{3}, {1, 2, 4});
  HostTensor<float> longer(Shape{2}, {5, 6});
  HostTensor<float> shifted(Shape{2}, {6, 6});
  const std::vector<TensorPair> pairs{
      {one.view(), other.view()}, {one.view(), one.view()}, {longer.view(), shifted.view()}};
  std::vector<CompareOutcome> outcomes(pairs.size());
  const auto size = static_cast<std::int64_t>(sizeof(CompareOutcome));
  HostStream stream;
  compare_pairs(stream, {outcomes.data(), DType::uint8, Shape{3, size}}, pairs, bitwise, "pairs");
  ASSERT_EQ(stream.calls().size(), 1U);
  EXPECT_EQ(stream.calls()[0].operands.size(), 7U);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    CompareOutcome alone;
    compare(stream, {&alone, DType::uint8, Shape{size}}, pairs[i].expected, pairs[i].actual,
            bitwise, "alone");
    EXPECT_EQ(bytes_of(outcomes[i]), bytes_of(alone)) << i;
  }
  EXPECT_EQ(outcomes[0].first_bad_index, 2);
  EXPECT_EQ(outcomes[1].bad_count, 0);
  EXPECT_EQ(outcomes[2].first_bad_index, 0);
}

TEST(ManyTensorsInACall, MustFitEachOther) {
  HostTensor<float> one(Shape{3}, {1, 2, 3});
  HostTensor<double> wide(Shape{3}, {1, 2, 3});
  HostTensor<float> longer(Shape{4}, {1, 2, 3, 4});
  std::vector<CompareOutcome> outcomes(1);
  const TensorView memory{outcomes.data(), DType::uint8,
                          Shape{std::int64_t{sizeof(CompareOutcome)}}};
  HostStream stream;
  for (const TensorPair& pair :
       {TensorPair{one.view(), wide.view()}, {one.view(), longer.view()}}) {
    EXPECT_THROW(compare_pairs(stream, memory, std::array{pair}, bitwise, "pairs"), InternalError);
  }
  const TensorPair fits{one.view(), one.view()};
  EXPECT_THROW(compare_pairs(stream, memory, std::array{fits, fits}, bitwise, "pairs"),
               InternalError);
  EXPECT_THROW(copies(stream, std::array{CopyPair{one.view(), longer.view()}}, "copies"),
               InternalError);
  EXPECT_THROW(checksums(stream, memory, std::array{one.view()}, "checksums"), InternalError);
}

TEST(ManyTensorsInACall, AreHashedAndCopiedAsOneByOne) {
  HostTensor<float> one(Shape{3}, {1, 2, 3});
  HostTensor<double> wide(Shape{2}, {4, 5});
  HostTensor<float> one_copy(Shape{3}, {0, 0, 0});
  HostTensor<double> wide_copy(Shape{2}, {0, 0});
  HostStream stream;
  copies(stream,
         std::array{CopyPair{one_copy.view(), one.view()}, CopyPair{wide_copy.view(), wide.view()}},
         "copies");
  std::array<std::uint64_t, 4> cells{};
  const TensorView memory{cells.data(), DType::uint64, Shape{4}};
  checksums(stream, memory, std::array{one.view(), wide.view(), one_copy.view(), wide_copy.view()},
            "checksums");
  EXPECT_EQ(cells[0], checksum_of<float>({1, 2, 3}));
  EXPECT_EQ(cells[1], checksum_of<double>({4, 5}));
  EXPECT_EQ(cells[2], cells[0]);
  EXPECT_EQ(cells[3], cells[1]);
}

}  // namespace
}  // namespace cgconform::workloads::test
