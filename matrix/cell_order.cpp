#include "matrix/cell_order.hpp"

#include <algorithm>
#include <bit>

namespace cgconform::matrix {
namespace {

constexpr int feistel_rounds = 6;

/// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;

}  // namespace

std::uint64_t round_seed(std::uint64_t seed, std::uint64_t round) {
  return round <= 1 ? seed : mixed(seed + (round - 1) * golden);
}

ShuffledOrder::ShuffledOrder(std::uint64_t count, std::uint64_t seed) : count_(count), seed_(seed) {
  const auto bits = static_cast<std::uint32_t>(std::bit_width(count > 0 ? count - 1 : 0));
  half_bits_ = std::max<std::uint32_t>(1, (bits + 1) / 2);
}

std::uint64_t ShuffledOrder::operator[](std::uint64_t place) const {
  // A Feistel network permutes the numbers of an even count of bits; those beyond the end are sent
  // through again, at most a few times on average, until they fall below it.
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t number = place;
  do {
    std::uint64_t left = number >> half_bits_;
    std::uint64_t right = number & mask;
    for (std::uint64_t round = 1; round <= feistel_rounds; ++round) {
      const std::uint64_t next = left ^ (mixed(seed_ + round * golden + mixed(right)) & mask);
      left = right;
      right = next;
    }
    number = (left << half_bits_) | right;
  } while (number >= count_);
  return number;
}

}  // namespace cgconform::matrix
