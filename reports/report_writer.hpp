#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reports/round_tally.hpp"
#include "suites/result_record.hpp"
#include "suites/verdict.hpp"

namespace cgconform::reports {

/// One rank's environment fingerprint: facts by name ("driver", "NCCL_GRAPH_REGISTER", ...).
struct RankInfo {
  int world_rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string device;  ///< "reference" or "cuda"
  std::map<std::string, std::string> facts;
};

/// How the cells of the matrix were classified before the run: total = run + refused + skipped.
struct PlannedCounts {
  std::uint64_t total = 0;
  std::uint64_t run = 0;  ///< baselines included
  std::uint64_t refused = 0;
  std::uint64_t skipped = 0;
};

/// What is known when a run begins.
struct RunInfo {
  std::string version;
  std::string git_commit;
  std::string command_line;
  std::string matrix;
  std::string matrix_hash;
  std::uint64_t seed = 0;
  std::string device;
  std::string report_directory;
  std::string started;    ///< ISO 8601, UTC
  std::string selection;  ///< what is run of the matrix, and how; empty for all of it once
  std::vector<std::string> notices;  ///< what a reader of the verdicts has to know of the run
  std::vector<RankInfo> ranks;
  PlannedCounts planned;
};

/// A cell that ended badly, for the list at the end.
struct FailedCell {
  std::string id;
  std::string hash;
  suites::Verdict verdict = suites::Verdict::pass;
  int failing_rank = -1;
  std::string check_id;
  std::string reason;
  std::string reproducer;
  std::uint64_t round = 0;  ///< in which it failed; 0 where the run has no rounds
  PassRate rate;            ///< over all rounds
};

/// What is known when a run ends. `counts.total = run + refused + skipped` also where it was
/// interrupted: cells without a verdict are then in `missing`, a part of `run`.
struct RunSummary {
  PlannedCounts counts;
  std::map<suites::Verdict, std::uint64_t> verdicts;
  std::map<std::string, std::uint64_t> refused_by_rule;
  std::map<std::string, std::uint64_t> skipped_by_reason;
  std::uint64_t missing = 0;
  std::vector<FailedCell> failures;
  std::vector<RoundSummary> rounds;  ///< of a run that repeats its cells
  int exit_code = 0;
  std::string exit_meaning;
  std::string resume_line;  ///< that runs the rest; empty for a run that is over
  double seconds = 0.0;
};

/// A receiver of one run's results. `begin` comes first, then one `cell_finished` a cell, `end`
/// last; a run that dies leaves what was received so far. Errors of the output medium throw.
class ReportWriter {
 public:
  virtual ~ReportWriter() = default;
  virtual void begin(const RunInfo& info) = 0;
  virtual void cell_finished(const suites::CellResult& result) = 0;
  virtual void end(const RunSummary& summary) = 0;
};

/// Collects a RunSummary from the results as they come; refused and skipped cells included.
class SummaryCollector {
 public:
  explicit SummaryCollector(const PlannedCounts& planned) { summary_.counts = planned; }
  void add(const suites::CellResult& result);
  /// Takes the counts of a run that goes on as long as it has time.
  void plan(const PlannedCounts& planned) { summary_.counts = planned; }
  /// The summary so far; `missing` is what was planned to run and has no verdict yet.
  RunSummary finish(int exit_code, std::string exit_meaning, double seconds) const;

 private:
  RunSummary summary_;
  RoundTally tally_;
  std::uint64_t finished_ = 0;
};

/// The part of a skip reason or refusal that is counted together: text up to the first ':'
/// for "duplicate of: ID"-like reasons, the whole text otherwise.
std::string skip_category(const std::string& reason);

}  // namespace cgconform::reports
