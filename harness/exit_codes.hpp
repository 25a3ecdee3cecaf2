#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "reports/report_writer.hpp"

namespace cgconform::harness {

/// What the program ends with. Stable: scripts rely on the numbers.
enum class ExitCode : std::uint8_t {
  passed = 0,
  failed = 1,
  unusable_input = 2,
  environment = 3,
  unplanned_skips = 4,
  interrupted = 5,
  selftest_failed = 6,
  internal_error = 7,
  guard_lifted = 8,
  everything_skipped = 77,
};

struct ExitCodeRow {
  ExitCode code;
  std::string_view meaning;
};

/// The table of exit codes; --help and the documents are made from it.
std::span<const ExitCodeRow> exit_code_table();
std::string_view exit_code_meaning(ExitCode code);
inline int exit_status(ExitCode code) {
  return static_cast<int>(code);
}
/// One line a code, for --help.
std::string exit_code_help();
/// The table as Markdown.
std::string exit_code_markdown();

/// What a run's results amount to, apart from interruption: a missing verdict before a bad one,
/// a bad one before a fault of the environment, that before skips, those before lifted guards.
/// Skips that the user asked for, by a time limit or --fail-fast, count as planned.
ExitCode exit_code_of(const reports::RunSummary& summary);

/// True where more cells are skipped than `most`. Duplicates do not count: another cell does what
/// they would do.
bool skips_too_many(const reports::RunSummary& summary, std::uint64_t most);

}  // namespace cgconform::harness
