#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace cgconform::suites {

/// A rank whose answer is not that of most ranks, and one of those.
struct OddRank {
  std::size_t rank = 0;
  std::size_t other = 0;
};

/// The first rank that differs from the most frequent answer, by position; of equally frequent
/// answers that of the lowest rank counts. Empty where all agree.
std::optional<OddRank> find_odd_rank(std::span<const std::string> answers);

}  // namespace cgconform::suites
