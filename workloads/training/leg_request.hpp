#pragma once

#include <compare>
#include <cstdint>

namespace cgconform::workloads {

enum class LegKind : std::uint8_t { eager, graph };

/// What distinguishes one execution of a cell from another. Equal requests are run once.
struct LegRequest {
  LegKind kind = LegKind::eager;
  std::int32_t repetition = 0;      ///< 0, 1, ...: repeats for noise
  bool instrumented = false;        ///< taps inside layers, slot hashes, poison, guard bands
  std::uint64_t replay_seed = 0;    ///< reference device: topological order of replays
  bool timed = false;               ///< graphs are uploaded first, and nothing is watched but time
  bool without_validation = false;  ///< the validation steps are left out
  friend auto operator<=>(const LegRequest&, const LegRequest&) = default;
};

}  // namespace cgconform::workloads
