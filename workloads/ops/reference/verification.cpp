#include "workloads/ops/verification.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 30;
  value *= 0xBF58476D1CE4E5B9ULL;
  value ^= value >> 27;
  value *= 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

std::uint64_t checksum_of(const std::uint8_t* bytes, std::int64_t count) {
  std::uint64_t sum = mix(static_cast<std::uint64_t>(count));
  for (std::int64_t start = 0, position = 1; start < count; start += 8, ++position) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + start,
                static_cast<std::size_t>(std::min<std::int64_t>(8, count - start)));
    sum += mix(word ^ mix(static_cast<std::uint64_t>(position)));
  }
  return sum;
}

/// Distance in representable numbers; the bits of floating types are ordered as integers once the
/// negative half is mirrored.
template <typename T>
std::int64_t ulp_distance(T a, T b) {
  using Narrow = std::conditional_t<sizeof(T) == 2, std::int16_t, std::int32_t>;
  using Bits = std::conditional_t<sizeof(T) == 8, std::int64_t, Narrow>;
  const auto ordered = [](T value) {
    const std::int64_t bits = std::bit_cast<Bits>(value);
    return bits < 0 ? std::numeric_limits<Bits>::min() - bits : bits;
  };
  const std::int64_t left = ordered(a);
  const std::int64_t right = ordered(b);
  std::int64_t distance = 0;
  if (__builtin_sub_overflow(left, right, &distance)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return distance < 0 ? -distance : distance;
}

template <typename T>
bool same_bits(T a, T b) {
  using Bytes = std::array<std::byte, sizeof(T)>;
  return std::bit_cast<Bytes>(a) == std::bit_cast<Bytes>(b);
}

template <typename T>
constexpr bool is_floating = std::is_floating_point_v<T> || is_sixteen_bit<T>;

template <typename T>
bool is_close(T expected, T actual, const CompareParams& params) {
  if constexpr (is_floating<T>) {
    const auto wanted = static_cast<double>(expected);
    const auto seen = static_cast<double>(actual);
    if (std::isnan(wanted) || std::isnan(seen)) return std::isnan(wanted) && std::isnan(seen);
    if (std::isinf(wanted) || std::isinf(seen)) return wanted == seen;
    return std::abs(seen - wanted) <= params.absolute + params.relative * std::abs(wanted);
  } else {
    return expected == actual;
  }
}

/// Which count of CompareOutcome::ulp_histogram a distance belongs to.
std::size_t ulp_bucket(std::int64_t ulps) {
  std::size_t bucket = 0;
  while (bucket + 1 < ulp_limits.size() && ulps > ulp_limits.at(bucket)) ++bucket;
  return bucket;
}

template <typename T>
void note_difference(T expected, T actual, CompareOutcome& outcome) {
  const auto wanted = static_cast<double>(expected);
  const auto seen = static_cast<double>(actual);
  double difference = std::abs(seen - wanted);
  if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
  outcome.max_abs = std::max(outcome.max_abs, difference);
  const double relative = wanted == 0.0 && difference == 0.0 ? 0.0 : difference / std::abs(wanted);
  outcome.max_rel = std::max(outcome.max_rel, std::isnan(relative) ? difference : relative);
  if constexpr (is_floating<T>) {
    if (std::isnan(wanted) != std::isnan(seen)) ++outcome.nan_mismatch_count;
    if (!std::isnan(wanted) && !std::isnan(seen)) {
      const std::int64_t ulps = ulp_distance(expected, actual);
      outcome.max_ulp = std::max(outcome.max_ulp, ulps);
      ++outcome.ulp_histogram.at(ulp_bucket(ulps));
    }
  }
}

/// Compares operand `index` with the next one.
template <typename T>
CompareOutcome compare_elements(const OpCall& call, std::size_t index) {
  const auto params = call.params.as<CompareParams>();
  const T* expected = elements<T>(call, index);
  const T* actual = elements<T>(call, index + 1);
  CompareOutcome outcome;
  outcome.element_count = call.operand(index).elements();
  for (std::int64_t i = 0; i < outcome.element_count; ++i) {
    const bool good = params.bitwise ? same_bits(expected[i], actual[i])
                                     : is_close(expected[i], actual[i], params);
    if (good) continue;
    if (outcome.bad_count++ == 0) {
      outcome.first_bad_index = i;
      outcome.expected = static_cast<double>(expected[i]);
      outcome.actual = static_cast<double>(actual[i]);
    }
    note_difference(expected[i], actual[i], outcome);
  }
  return outcome;
}

CompareOutcome compare_typed(const OpCall& call, std::size_t index) {
  switch (call.operand(index).dtype) {
    case DType::fp32:
      return compare_elements<float>(call, index);
    case DType::fp64:
      return compare_elements<double>(call, index);
    case DType::int32:
      return compare_elements<std::int32_t>(call, index);
    case DType::int64:
      return compare_elements<std::int64_t>(call, index);
    case DType::uint64:
      return compare_elements<std::uint64_t>(call, index);
    case DType::uint8:
      return compare_elements<std::uint8_t>(call, index);
    case DType::bf16:
      return compare_elements<BFloat16>(call, index);
    case DType::fp16:
      return compare_elements<Float16>(call, index);
  }
  throw InternalError("compare: a type without a kernel");
}

}  // namespace

void copies(const OpCall& call) {
  for (std::size_t index = 0; index + 1 < call.operands.size(); index += 2) {
    std::memcpy(call.operand(index).data, call.operand(index + 1).data,
                static_cast<std::size_t>(call.operand(index).bytes()));
  }
}

void checksum(const OpCall& call) {
  checksums(call);
}

void checksums(const OpCall& call) {
  for (std::size_t index = 1; index < call.operands.size(); ++index) {
    elements<std::uint64_t>(call, 0)[index - 1] =
        checksum_of(elements<const std::uint8_t>(call, index), call.operand(index).bytes());
  }
}

void compare(const OpCall& call) {
  const CompareOutcome outcome = compare_typed(call, 1);
  std::memcpy(call.operand(0).data, &outcome, sizeof(outcome));
}

void compare_pairs(const OpCall& call) {
  auto* outcomes = elements<std::byte>(call, 0);
  for (std::size_t index = 1; index + 1 < call.operands.size(); index += 2) {
    const CompareOutcome outcome = compare_typed(call, index);
    std::memcpy(outcomes + index / 2 * sizeof(outcome), &outcome, sizeof(outcome));
  }
}

}  // namespace cgconform::workloads::reference
