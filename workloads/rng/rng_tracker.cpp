#include "workloads/rng/rng_tracker.hpp"

namespace cgconform::workloads {

namespace {

/// Of a state: its seed and its offset.
constexpr std::int64_t numbers_a_stream = 2;

}  // namespace

TensorView RngState::at(RngStream stream) const {
  const auto row = static_cast<std::size_t>(stream);
  TensorView state = states;
  state.shape = Shape{numbers_a_stream};
  state.data = static_cast<std::byte*>(states.data) + row * static_cast<std::size_t>(state.bytes());
  return state;
}

std::array<std::uint64_t, rng_stream_count> stream_seeds(std::uint64_t seed,
                                                         const RngPlace& place) {
  constexpr std::uint64_t seeds_a_stage = 100;
  constexpr std::uint64_t tensor_parallel_offset = 2718;
  constexpr std::uint64_t expert_parallel_offset = 1024;
  constexpr std::uint64_t seeds_an_expert_rank = 100;
  const auto tensor_rank = static_cast<std::uint64_t>(place.tensor_rank);
  const auto expert_rank = static_cast<std::uint64_t>(place.expert_rank);
  const std::uint64_t of_stage = seed + seeds_a_stage * static_cast<std::uint64_t>(place.stage);
  return {of_stage, of_stage + tensor_parallel_offset + tensor_rank,
          of_stage + expert_parallel_offset + seeds_an_expert_rank * expert_rank + tensor_rank};
}

RngTracker::RngTracker(CachingAllocator& allocator, Stream& stream, std::uint64_t seed,
                       const RngPlace& place)
    : place_(place),
      memory_(allocator, stream, default_pool, DType::uint64,
              Shape{static_cast<std::int64_t>(rng_stream_count), numbers_a_stream}, "rng state") {
  reseed(stream, seed);
}

void RngTracker::reseed(Stream& stream, std::uint64_t seed) {
  std::array<std::uint64_t, rng_stream_count * numbers_a_stream> states{};
  std::size_t next = 0;
  for (const std::uint64_t of_stream : stream_seeds(seed, place_)) {
    states.at(next) = of_stream;
    next += numbers_a_stream;
  }
  stream.upload(memory_.view(), states.data(), false, "seed rng state");
}

Buffer save_rng_state(Stream& stream, CachingAllocator& allocator, PoolId pool,
                      const RngState& state, const std::string& label) {
  Buffer saved(allocator, stream, pool, state.states.dtype, state.states.shape, label);
  stream.copy(saved.view(), state.states, label);
  return saved;
}

void restore_rng_state(Stream& stream, const RngState& state, const TensorView& saved,
                       const std::string& label) {
  stream.copy(state.states, saved, label);
}

}  // namespace cgconform::workloads
