#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "matrix/expansion.hpp"

namespace cgconform::matrix {

/// Numbers the tuples of values of so many different axes of an expansion: pairs, triples, ... Only
/// axes with several values count; a width beyond their number is taken down to it.
class TupleNumbers {
 public:
  TupleNumbers(const Expansion& expansion, std::size_t width);

  /// How many there are; UINT64_MAX where 64 bits do not count them.
  std::uint64_t count() const { return count_; }

  /// Calls `visit` with the number of each tuple that the cell at these coordinates holds.
  template <typename Visit>
  void for_each(std::span<const std::uint32_t> coordinates, const Visit& visit) const {
    for (const Combination& combination : combinations_) {
      std::uint64_t number = 0;
      for (std::size_t i = 0; i < width_; ++i) {
        const Member& member = members_[combination.first_member + i];
        number = number * member.values + coordinates[member.axis];
      }
      visit(combination.first_number + number);
    }
  }

 private:
  /// An axis of a combination of axes.
  struct Member {
    std::uint32_t axis = 0;
    std::uint32_t values = 0;
  };
  struct Combination {
    std::uint64_t first_number = 0;
    std::size_t first_member = 0;
  };

  std::size_t width_ = 0;
  std::uint64_t count_ = 0;
  std::vector<Member> members_;  ///< of all combinations, one after the other
  std::vector<Combination> combinations_;
};

/// Orders cells so that each prefix holds as many of the tuples not yet `covered` as can be had one
/// cell at a time, and marks them. Cells that add nothing are left out; of equals the first goes
/// first.
std::vector<std::uint64_t> order_by_gain(const Expansion& expansion, const TupleNumbers& tuples,
                                         std::span<const std::uint64_t> cells,
                                         std::vector<bool>& covered);

}  // namespace cgconform::matrix
