#pragma once

#include <string>
#include <vector>

#include "harness/coordinator.hpp"
#include "harness/run_options.hpp"
#include "suites/probe_table.hpp"

namespace cgconform::harness {

/// The probes that the options choose: by name, by rule, or all. Throws InputError with the nearest
/// name.
std::vector<const suites::Probe*> chosen_probes(const RunOptions& options);

/// A run of the probes: every row is a cell in fresh workers, with the rule's guard lifted. A row
/// passes where what came out is what its table says; where nothing happened although the table
/// says otherwise it ends as GUARD_LIFTED, and with any other failure as that failure. Rows that
/// cannot be shown on the device, or need more ranks, are skipped.
RunPlan plan_probe(const RunOptions& options, const std::string& device, int ranks);

}  // namespace cgconform::harness
