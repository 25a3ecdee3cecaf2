#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"
#include "suites/result_record.hpp"

namespace cgconform::harness {

/// One kind of error at one place of one kernel, however many threads made it.
struct SanitizerFinding {
  std::string what;    ///< "Invalid __global__ write of size 4 bytes"
  std::string kernel;  ///< as compute-sanitizer names it; empty for an error of no kernel
  std::string place;   ///< "rows.cu:41"; empty without line information
  std::string detail;  ///< further lines of the first: thread, address, nearest allocation
  std::uint64_t count = 1;
  friend bool operator==(const SanitizerFinding&, const SanitizerFinding&) = default;
};

/// A report of compute-sanitizer.
struct SanitizerReport {
  std::vector<SanitizerFinding> findings;  ///< in order of their first appearance
  /// Of the closing summary; nothing where the program was ended before it was written.
  std::optional<std::uint64_t> errors;
  /// Errors that the tool counted and did not print.
  std::uint64_t unprinted = 0;
  /// What the tool says of a failure of its own; empty where it says of none.
  std::string internal_error;
  /// Some writes of the cell are out of initcheck's sight, so that it may take what they wrote for
  /// never written.
  bool has_unseen_writes = false;
};

/// True where a cell has writes that initcheck does not see: products of 16 and 8 bits, which
/// cuBLASLt stores by tensor copies on GPUs of compute capability 9.0 and newer. Source: release
/// notes of compute-sanitizer 2025.3.
bool has_unseen_writes(const matrix::Cell& cell);

/// Reads the text that compute-sanitizer writes to its log. Lines that it does not know are left
/// out; API errors, which NCCL and cuBLAS cause by probing, are no findings.
SanitizerReport parse_sanitizer_report(std::string_view text);

/// The tools of compute-sanitizer that a run may ask for.
const std::vector<std::string_view>& sanitizer_tools();

/// What a tool's report says of the rank that ran under it, as check TLG-05. Invalid accesses count
/// in all kernels. Races and uninitialised reads count in this program's kernels alone: libraries
/// have their own ways to order threads, and pad what they read. Where the tool itself has failed,
/// has not printed all it saw, or has not seen all writes, nothing is known.
suites::CheckResult judge_sanitizer_report(const SanitizerReport& report, std::string_view tool);

/// Adds TLG-05 to what a rank reports. A tool that fails can make the program fail under it, so
/// that then TLG-05 alone is left of the report.
void add_sanitizer_report(const SanitizerReport& seen, std::string_view tool,
                          suites::RankReport& report);

}  // namespace cgconform::harness
