#pragma once

#include <cstdint>

#include "suites/leg_set.hpp"

namespace cgconform::suites {

/// Bytes of one leg, over all pools its tensors lie in.
struct LegFootprint {
  std::int64_t peak_active_bytes = 0;    ///< in blocks; the sum of the pools' own peaks
  std::int64_t peak_reserved_bytes = 0;  ///< in segments; the sum of the pools' own peaks
  std::int64_t graph_pool_bytes = 0;     ///< reserved by the private pools of graphs
  std::int64_t graph_pools = 0;
};
LegFootprint footprint_of(const workloads::LegRecord& record);

/// Notes what every leg that trained needed, what each form of graphs needed more than eager, and
/// the bytes of the graphs.
void measure_memory(const LegSet& legs, RankReport& report);

}  // namespace cgconform::suites
