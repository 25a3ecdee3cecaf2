#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

namespace cgconform::matrix {

/// A set of enumerators as a bit mask; `E` must have fewer than 32 enumerators numbered from 0.
template <typename E>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<E> values) {
    for (E value : values) insert(value);
  }
  static constexpr EnumSet from_bits(std::uint32_t bits) {
    EnumSet set;
    set.bits_ = bits;
    return set;
  }

  constexpr void insert(E value) { bits_ |= bit(value); }
  constexpr void erase(E value) { bits_ &= ~bit(value); }
  constexpr bool contains(E value) const { return (bits_ & bit(value)) != 0; }
  constexpr bool contains_any(EnumSet other) const { return (bits_ & other.bits_) != 0; }
  constexpr bool is_subset_of(EnumSet other) const { return (bits_ & ~other.bits_) == 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr int size() const { return std::popcount(bits_); }
  constexpr std::uint32_t bits() const { return bits_; }

  friend constexpr bool operator==(EnumSet, EnumSet) = default;
  friend constexpr EnumSet operator|(EnumSet a, EnumSet b) { return from_bits(a.bits_ | b.bits_); }
  friend constexpr EnumSet operator&(EnumSet a, EnumSet b) { return from_bits(a.bits_ & b.bits_); }

 private:
  static constexpr std::uint32_t bit(E value) { return 1U << static_cast<unsigned>(value); }
  std::uint32_t bits_ = 0;
};

}  // namespace cgconform::matrix
