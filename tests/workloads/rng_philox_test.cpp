#include <array>
#include <cstdint>
#include <set>

#include <gtest/gtest.h>

#include "workloads/rng/philox.hpp"

namespace cgconform::workloads::test {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers of philox4x32-10 that Random123 publishes (kat_vectors).
static_assert(philox(0, 0, 0) == Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
static_assert(philox(~0ULL, ~0ULL, ~0ULL) == Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
static_assert(philox(0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88) ==
              Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});

TEST(Philox, GivesTheKnownAnswersAtRunTimeToo) {
  volatile std::uint64_t ones = ~0ULL;
  const std::uint64_t value = ones;
  EXPECT_EQ(philox(value, value, value), (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
}

TEST(Philox, EveryPartOfKeyAndCounterChangesTheWords) {
  std::set<Words> seen;
  for (int bit = 0; bit < 64; ++bit) {
    seen.insert(philox(1ULL << bit, 0, 0));
    seen.insert(philox(0, 1ULL << bit, 0));
    seen.insert(philox(0, 0, 1ULL << bit));
  }
  EXPECT_EQ(seen.size(), 3U * 64U);
}

TEST(Philox, UniformNumbersStayBelowOne) {
  EXPECT_EQ(uniform(0), 0.0);
  EXPECT_LT(uniform(~0U), 1.0);
  EXPECT_EQ(uniform(1U << 31), 0.5);
}

}  // namespace
}  // namespace cgconform::workloads::test
