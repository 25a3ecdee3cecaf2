#include "harness/exit_codes.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "harness/run_limits.hpp"
#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

using suites::VerdictClass;

constexpr std::array exit_code_rows{
    ExitCodeRow{ExitCode::passed, "passed"},
    ExitCodeRow{ExitCode::failed, "at least one FAIL, CRASH, HANG or FLAKY"},
    ExitCodeRow{ExitCode::unusable_input, "unusable input"},
    ExitCodeRow{ExitCode::environment, "environment"},
    ExitCodeRow{ExitCode::unplanned_skips, "unplanned skips"},
    ExitCodeRow{ExitCode::interrupted, "interrupted, can be resumed"},
    ExitCodeRow{ExitCode::selftest_failed, "self-test failed"},
    ExitCodeRow{ExitCode::internal_error, "internal error, or a missing verdict"},
    ExitCodeRow{ExitCode::guard_lifted, "nothing failed, but a guard was lifted: not conformance"},
    ExitCodeRow{ExitCode::everything_skipped, "everything skipped"},
};

std::uint64_t count_of(const reports::RunSummary& summary, VerdictClass kind) {
  std::uint64_t count = 0;
  for (const auto& [verdict, cells] : summary.verdicts) {
    if (suites::verdict_class(verdict) == kind) count += cells;
  }
  return count;
}

std::uint64_t asked_for(const reports::RunSummary& summary) {
  std::uint64_t count = 0;
  for (const auto& [reason, cells] : summary.skipped_by_reason) {
    if (is_asked_for(reason)) count += cells;
  }
  return count;
}

}  // namespace

std::span<const ExitCodeRow> exit_code_table() {
  return exit_code_rows;
}

std::string_view exit_code_meaning(ExitCode code) {
  const auto* row = std::find_if(exit_code_rows.begin(), exit_code_rows.end(),
                                 [&](const ExitCodeRow& r) { return r.code == code; });
  if (row == exit_code_rows.end()) {
    throw InternalError(fmt::format("exit code {} has no row in its table", exit_status(code)));
  }
  return row->meaning;
}

std::string exit_code_help() {
  std::string text = "Exit codes:\n";
  for (const ExitCodeRow& row : exit_code_rows) {
    text += fmt::format("  {:<4}{}\n", exit_status(row.code), row.meaning);
  }
  return text;
}

std::string exit_code_markdown() {
  std::string text = "| code | meaning |\n|---|---|\n";
  for (const ExitCodeRow& row : exit_code_rows) {
    text += fmt::format("| {} | {} |\n", exit_status(row.code), row.meaning);
  }
  return text;
}

ExitCode exit_code_of(const reports::RunSummary& summary) {
  if (summary.missing > 0) return ExitCode::internal_error;
  if (count_of(summary, VerdictClass::bad) > 0) return ExitCode::failed;
  if (count_of(summary, VerdictClass::environment) > 0) return ExitCode::environment;
  const std::uint64_t ran = count_of(summary, VerdictClass::good);
  const std::uint64_t refused = count_of(summary, VerdictClass::refused);
  const std::uint64_t skipped = count_of(summary, VerdictClass::skipped);
  // Refusals alone are an answer; a run in which no cell that could run did run is none.
  if (ran == 0 && (skipped > 0 || refused == 0)) return ExitCode::everything_skipped;
  if (skipped > summary.counts.skipped + asked_for(summary)) return ExitCode::unplanned_skips;
  if (summary.verdicts.contains(suites::Verdict::guard_lifted)) return ExitCode::guard_lifted;
  return ExitCode::passed;
}

bool skips_too_many(const reports::RunSummary& summary, std::uint64_t most) {
  std::uint64_t skips = 0;
  for (const auto& [reason, cells] : summary.skipped_by_reason) {
    const bool equal =
        reason.starts_with("duplicate of") || reason.starts_with("no effect on device");
    if (!equal) skips += cells;
  }
  return skips > most;
}

}  // namespace cgconform::harness
