#pragma once

#include <string_view>

#include "harness/coordinator.hpp"
#include "harness/run_options.hpp"
#include "suites/selftest_table.hpp"

namespace cgconform::harness {

/// The row of the self-test's table with this id. Throws InputError with the nearest id.
const suites::SelftestRow& selftest_row(std::string_view id);

/// A run of the self-test: every row is a cell in fresh workers, passes where exactly what the row
/// says came out, and is FAIL_SUITE otherwise; then the run ends with `selftest_failed`. Rows that
/// need more ranks are skipped.
RunPlan plan_selftest(const RunOptions& options, int ranks);

}  // namespace cgconform::harness
