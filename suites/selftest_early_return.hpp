#pragma once

#include <vector>

#include "suites/selftest_table.hpp"

namespace cgconform::suites {

/// Trainings that return early, on one rank and on two: as they are, and with an incomplete
/// cleanup.
void add_early_returns(std::vector<SelftestRow>& rows);

}  // namespace cgconform::suites
