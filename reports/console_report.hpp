#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "reports/report_writer.hpp"

namespace cgconform::reports {

struct ConsoleOptions {
  std::FILE* out = stdout;
  bool colour = false;     ///< ANSI colours
  bool live_line = false;  ///< redraw one progress line (a terminal); otherwise print it rarely
  bool quiet = false;      ///< failures and the summary only
  std::uint64_t max_failures_shown = 50;  ///< each with its details; the rest is counted
};

/// The human-readable report: header with the fingerprint of every rank, progress with counts and
/// an estimate, each failure with rank, first wrong tensor and the line that repeats it, summary.
class ConsoleReport final : public ReportWriter {
 public:
  explicit ConsoleReport(const ConsoleOptions& options) : options_(options) {}
  void begin(const RunInfo& info) override;
  void cell_finished(const suites::CellResult& result) override;
  void end(const RunSummary& summary) override;

 private:
  using Clock = std::chrono::steady_clock;

  void print_ranks(const RunInfo& info);
  void print_failure(const suites::CellResult& result);
  void print_progress(bool last);
  void print_round_before(std::uint64_t round);
  void print_rounds(const RunSummary& summary) const;
  void clear_live_line();
  std::string paint(const char* code, const std::string& text) const;

  ConsoleOptions options_;
  std::string report_directory_;
  std::uint64_t to_run_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t passed_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t shown_failures_ = 0;
  RoundTally tally_;
  Clock::time_point started_;
  Clock::time_point last_progress_;
  bool live_line_drawn_ = false;
};

/// Text of one failed cell, as on the console and in JUnit's <failure>: the verdict, the check,
/// the rank, the first wrong tensor, phase and stack of ranks that died, and the reproducer.
std::string describe_failure(const suites::CellResult& result);

/// "step 2, micro-batch 1, layer 0, tensor output[5]" for a divergence.
std::string describe_location(const suites::Divergence& divergence);

}  // namespace cgconform::reports
