#pragma once

#include <cstdint>

#include "workloads/training/leg_record.hpp"

namespace cgconform::suites {

/// Hash of what a graph's nodes are and in which order they run: kinds, ops and edges, without
/// addresses and labels.
std::uint64_t graph_topology(const workloads::GraphRecord& graph);
/// Hash of all graphs of a leg in capture order; 0 where there are none.
std::uint64_t leg_topology(const workloads::LegRecord& record);

}  // namespace cgconform::suites
