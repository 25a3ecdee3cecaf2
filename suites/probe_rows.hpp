#pragma once

#include <string_view>
#include <vector>

#include "suites/probe_table.hpp"

namespace cgconform::suites {

// The groups of rows, one file each, in the order of the table.
std::vector<Probe> memory_probes();
std::vector<Probe> configuration_probes();
std::vector<Probe> graph_probes();
std::vector<Probe> moe_probes();

/// The self-test's cell of this name, as the base of a probe's.
matrix::Cell probe_cell(std::string_view name);

}  // namespace cgconform::suites
