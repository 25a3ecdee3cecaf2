#pragma once

#include <array>
#include <cstdint>

#if defined(__CUDACC__)
#define CGCONFORM_HOST_DEVICE __host__ __device__
#else
#define CGCONFORM_HOST_DEVICE
#endif

namespace cgconform::workloads {

/// Four random 32-bit words: Philox4x32 with ten rounds (Salmon et al., SC 2011) of the 128-bit
/// counter (`group`, `offset`) under the 64-bit key `seed`.
CGCONFORM_HOST_DEVICE constexpr std::array<std::uint32_t, 4> philox(std::uint64_t seed,
                                                                    std::uint64_t offset,
                                                                    std::uint64_t group) {
  constexpr std::uint64_t multiplier_0 = 0xD2511F53;
  constexpr std::uint64_t multiplier_1 = 0xCD9E8D57;
  auto c0 = static_cast<std::uint32_t>(group);
  auto c1 = static_cast<std::uint32_t>(group >> 32);
  auto c2 = static_cast<std::uint32_t>(offset);
  auto c3 = static_cast<std::uint32_t>(offset >> 32);
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product_0 = multiplier_0 * c0;
    const std::uint64_t product_1 = multiplier_1 * c2;
    c0 = static_cast<std::uint32_t>(product_1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(product_1);
    c2 = static_cast<std::uint32_t>(product_0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(product_0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

/// A number in [0, 1) from a random word.
CGCONFORM_HOST_DEVICE constexpr double uniform(std::uint32_t word) {
  return static_cast<double>(word) * 0x1p-32;
}

}  // namespace cgconform::workloads
