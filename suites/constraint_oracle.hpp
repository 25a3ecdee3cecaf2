#pragma once

#include <string_view>
#include <vector>

#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::suites {

/// The ids of all rules of the ruleset `cgconform` that a configuration breaks, sorted: written a
/// second time as plain code, to be compared with what the constraint engine says (CON-20). It
/// covers the rules that refuse a configuration before a run.
std::vector<std::string_view> oracle_violations(const matrix::TrainingConfig& config,
                                                const matrix::PlatformSettings& platform);

}  // namespace cgconform::suites
