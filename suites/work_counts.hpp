#pragma once

#include "matrix/cell.hpp"
#include "suites/comparison.hpp"
#include "suites/leg_set.hpp"
#include "suites/result_record.hpp"

namespace cgconform::suites {

/// Fills the report's counts of captures, replays and comparisons over all legs, the time of each
/// phase summed over them, and the memory of the judged graph leg. Replays are what the device
/// counted, not what the workload says.
void count_work(const matrix::Cell& cell, const LegSet& legs,
                const ControlledComparator& comparator, RankReport& report);

/// SUI-02: a graph cell of which one graph leg captured or replayed nothing, and any cell without a
/// comparison, has shown nothing: FAIL_COVERAGE. On a rank whose stage has no layer in scope there
/// must be no capture and no replay instead.
CheckResult judge_work(const matrix::Cell& cell, const LegSet& legs, const RankReport& report);

}  // namespace cgconform::suites
