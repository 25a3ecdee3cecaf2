#include "matrix/nearest_name.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cgconform::matrix {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::string x = lower(a);
  const std::string y = lower(b);
  const std::size_t width = y.size() + 1;
  std::vector<std::size_t> table((x.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * width + j];
  };
  for (std::size_t i = 0; i <= x.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= y.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= x.size(); ++i) {
    for (std::size_t j = 1; j <= y.size(); ++j) {
      const std::size_t substituted = at(i - 1, j - 1) + (x[i - 1] == y[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, substituted});
      if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(x.size(), y.size());
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (best.empty() || 3 * best_distance <= std::max(name.size(), best.size())) return best;
  const std::string wanted = lower(name);
  for (const std::string_view candidate : known) {
    const std::string have = lower(candidate);
    if (wanted.size() >= 2 && have.find(wanted) != std::string::npos) return candidate;
    if (have.size() >= 3 && wanted.find(have) != std::string::npos) return candidate;
  }
  return {};
}

std::string nearest_hint(std::string_view name, std::span<const std::string_view> known) {
  if (known.empty()) return {};
  const std::string_view nearest = nearest_name(name, known);
  if (!nearest.empty()) return fmt::format("; the nearest is '{}'", nearest);
  constexpr std::size_t most_named = 24;
  if (known.size() <= most_named) return fmt::format("; known are {}", fmt::join(known, ", "));
  return fmt::format("; known are {} and {} more", fmt::join(known.first(most_named), ", "),
                     known.size() - most_named);
}

}  // namespace cgconform::matrix
