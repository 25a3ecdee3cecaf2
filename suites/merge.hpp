#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suites/result_record.hpp"

namespace cgconform::suites {

/// The cell whose reports are merged.
struct MergeTarget {
  std::uint64_t index = 0;
  std::string id;
  std::string hash;
  int ranks = 1;  ///< of its gang
};

/// Merges the reports of a gang into the result of a cell (SUI-04). Any failing check or abnormal
/// end of any rank fails it; so do a rank without a report, a rank that reports twice, a report
/// without checks, and digests that differ. The first cause over all ranks decides, by the cause
/// order and then by rank; every other check that fired is secondary. The reproducer, the attempt
/// and the time are the caller's to fill.
CellResult merge_reports(const MergeTarget& target, std::vector<RankReport> reports);

}  // namespace cgconform::suites
