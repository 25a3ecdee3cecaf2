#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// The streams of random numbers that a model draws from, as Megatron's tracker keeps them apart.
enum class RngStream : std::uint8_t {
  data_parallel,    ///< equal on ranks that hold the same activations
  tensor_parallel,  ///< another one on every rank that holds a part of a layer
  expert_parallel,  ///< another one on every rank that holds other experts
};
constexpr std::size_t rng_stream_count = 3;

/// Random states in device memory, one a stream: {seed, offset} as two uint64, both read, and the
/// offset advanced, by the ops that draw, so that a graph draws new numbers at every replay.
struct RngState {
  TensorView states;  ///< [streams, 2]

  /// The state of one stream, [2].
  TensorView at(RngStream stream) const;
};

/// Where a rank stands, as far as its random numbers depend on it.
struct RngPlace {
  std::int32_t stage = 0;
  std::int32_t tensor_rank = 0;
  std::int32_t expert_rank = 0;
};

/// The seed of each stream, by Megatron's formula. Every stage has seeds of its own, which its
/// replicas share.
std::array<std::uint64_t, rng_stream_count> stream_seeds(std::uint64_t seed, const RngPlace& place);

/// Owns the random states of a rank. All calls are in stream order.
class RngTracker {
 public:
  RngTracker(CachingAllocator& allocator, Stream& stream, std::uint64_t seed,
             const RngPlace& place);

  RngState state() const { return {memory_.view()}; }
  /// Starts every stream anew from `seed`.
  void reseed(Stream& stream, std::uint64_t seed);
  /// Gives the memory back.
  void reset() { memory_.reset(); }

 private:
  RngPlace place_;
  Buffer memory_;
};

/// A copy of all streams as they stand now, in device memory.
Buffer save_rng_state(Stream& stream, CachingAllocator& allocator, PoolId pool,
                      const RngState& state, const std::string& label);
/// Puts what `save_rng_state` gave back in place.
void restore_rng_state(Stream& stream, const RngState& state, const TensorView& saved,
                       const std::string& label);

}  // namespace cgconform::workloads
