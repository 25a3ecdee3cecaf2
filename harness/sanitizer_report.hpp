#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
};

/// Reads the text that compute-sanitizer writes to its log. Lines that it does not know are left
/// out; API errors, which NCCL and cuBLAS cause by probing, are no findings.
SanitizerReport parse_sanitizer_report(std::string_view text);

/// The tools of compute-sanitizer that a run may ask for.
const std::vector<std::string_view>& sanitizer_tools();

/// What a tool's report says of the rank that ran under it, as check TLG-05. Invalid accesses count
/// in all kernels. Races and uninitialised reads count in this program's kernels alone: libraries
/// have their own ways to order threads, and pad what they read.
suites::CheckResult judge_sanitizer_report(const SanitizerReport& report, std::string_view tool);

}  // namespace cgconform::harness
