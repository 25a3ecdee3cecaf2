#pragma once

#include <vector>

#include "suites/selftest_table.hpp"

namespace cgconform::suites {

/// Adds cells of other kinds of models and inputs, for the faults that only they can show. They are
/// the cells `local`, `local-pipeline`, `full-iteration` and `transformer-engine`, changed.
std::vector<SelftestCell> with_variants(std::vector<SelftestCell> cells);

}  // namespace cgconform::suites
