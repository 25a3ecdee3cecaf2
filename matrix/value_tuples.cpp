#include "matrix/value_tuples.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

namespace cgconform::matrix {
namespace {

/// a * b + c, or UINT64_MAX where that does not fit.
std::uint64_t saturated(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t product = 0;
  std::uint64_t sum = 0;
  const bool over =
      __builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(product, c, &sum);
  return over ? UINT64_MAX : sum;
}

/// Moves to the next combination of positions below `count`, in lexicographic order.
bool advance(std::vector<std::size_t>& positions, std::size_t count) {
  const std::size_t width = positions.size();
  for (std::size_t i = width; i-- > 0;) {
    if (positions[i] + (width - i) >= count) continue;
    std::iota(positions.begin() + static_cast<std::ptrdiff_t>(i), positions.end(),
              positions[i] + 1);
    return true;
  }
  return false;
}

}  // namespace

TupleNumbers::TupleNumbers(const Expansion& expansion, std::size_t width)
    : width_(std::min(width, expansion.varying().size())) {
  if (width_ == 0) return;
  std::vector<std::size_t> positions(width_);
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  do {
    combinations_.push_back({count_, members_.size()});
    std::uint64_t tuples = 1;
    for (const std::size_t position : positions) {
      const std::size_t axis = expansion.varying()[position];
      const std::size_t values = expansion.axes()[axis].values.size();
      members_.push_back({static_cast<std::uint32_t>(axis), static_cast<std::uint32_t>(values)});
      tuples = saturated(tuples, values, 0);
    }
    count_ = saturated(count_, 1, tuples);
  } while (advance(positions, expansion.varying().size()));
}

std::vector<std::uint64_t> order_by_gain(const Expansion& expansion, const TupleNumbers& tuples,
                                         std::span<const std::uint64_t> cells,
                                         std::vector<bool>& covered) {
  Coordinates at;
  const auto gain = [&](std::uint64_t index) {
    std::size_t uncovered = 0;
    expansion.coordinates(index, at);
    tuples.for_each(at, [&](std::uint64_t tuple) { uncovered += covered[tuple] ? 0 : 1; });
    return uncovered;
  };
  // Gains only fall, so an outdated gain is a bound and is computed again only at the top.
  using Offer = std::pair<std::size_t, std::size_t>;  // gain, distance from the end
  std::priority_queue<Offer> offers;
  for (std::size_t i = 0; i < cells.size(); ++i)
    offers.emplace(gain(cells[i]), cells.size() - 1 - i);
  std::vector<std::uint64_t> ordered;
  while (!offers.empty()) {
    const auto [bound, place] = offers.top();
    const std::uint64_t index = cells[cells.size() - 1 - place];
    offers.pop();
    const std::size_t now = gain(index);
    if (now == 0) continue;
    if (now < bound) {
      offers.emplace(now, place);
      continue;
    }
    ordered.push_back(index);
    tuples.for_each(at, [&](std::uint64_t tuple) { covered[tuple] = true; });
  }
  return ordered;
}

}  // namespace cgconform::matrix
