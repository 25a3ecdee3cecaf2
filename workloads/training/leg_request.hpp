#pragma once

#include <compare>
#include <cstdint>

namespace cgconform::workloads {

enum class LegKind : std::uint8_t { eager, graph };

/// What distinguishes one execution of a cell from another. Equal requests are run once.
struct LegRequest {
  // Legs run in the order of these fields: variations of the cell after the cell as it is.
  std::int32_t steps = 0;          ///< training steps; 0: as the plan of the cell says
  std::int32_t warmup_steps = -1;  ///< in place of the cell's `cuda_graph_warmup_steps`; -1: those
  /// Steps after which the leg saves its state, destroys everything, loads and goes on; 0: never.
  std::int32_t restart_after = 0;
  bool without_recompute = false;  ///< as if the cell asked for none
  /// How often graphs are captured, replayed and destroyed again; 0 for a leg that trains. Such a
  /// leg observes no tensors: its memory is what is looked at.
  std::int32_t cycles = 0;
  bool other_pools = false;  ///< shares one pool where the cell has separate ones, and vice versa
  LegKind kind = LegKind::eager;
  std::int32_t repetition = 0;      ///< 0, 1, ...: repeats for noise
  bool instrumented = false;        ///< taps inside layers, slot hashes, poison, guard bands
  std::uint64_t replay_seed = 0;    ///< reference device: topological order of replays
  bool timed = false;               ///< graphs are uploaded first, and nothing is watched but time
  bool without_validation = false;  ///< the validation steps are left out
  friend auto operator<=>(const LegRequest&, const LegRequest&) = default;
};

}  // namespace cgconform::workloads
