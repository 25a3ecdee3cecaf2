#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cgconform::suites::checks {

/// Small integers that differ by place and by `seed`: data of scenarios that only move it.
template <std::size_t count>
std::array<std::int32_t, count> scenario_values(std::int32_t seed) {
  std::array<std::int32_t, count> values{};
  for (std::size_t i = 0; i < count; ++i) {
    values.at(i) = seed * 1000 + static_cast<std::int32_t>(i);
  }
  return values;
}

}  // namespace cgconform::suites::checks
