#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suites/verdict.hpp"

namespace cgconform::suites {

/// First place where two legs differ, in execution order.
struct Divergence {
  std::int32_t step = -1;
  std::int32_t microbatch = -1;
  std::int32_t layer = -1;
  std::string tensor;
  std::int64_t first_bad_index = -1;
  double expected = 0.0;
  double actual = 0.0;
  std::int64_t bad_count = 0;
  std::int64_t element_count = 0;
  double max_abs = 0.0;
  double max_rel = 0.0;
  std::int64_t max_ulp = 0;
  friend bool operator==(const Divergence&, const Divergence&) = default;
};

/// One check judged on one rank.
struct CheckResult {
  std::string check_id;
  Verdict verdict = Verdict::pass;
  std::string detail;  ///< one line: what was seen, against what
  std::optional<Divergence> divergence;
  friend bool operator==(const CheckResult&, const CheckResult&) = default;
};

/// What a rank was doing when it ended abnormally.
struct AbnormalEnd {
  Verdict verdict = Verdict::crash;  ///< crash, hang, fail_illegal_access or fail_teardown
  int signal = 0;
  int exit_code = 0;
  std::string phase;
  std::string last_operation;
  std::vector<std::string> stack;  ///< innermost first, symbolised
  bool ended_by_peer = false;  ///< stopped because another rank of the gang had ended abnormally
  friend bool operator==(const AbnormalEnd&, const AbnormalEnd&) = default;
};

/// One rank's report of one cell.
struct RankReport {
  int rank = 0;        ///< in the gang
  int world_rank = 0;  ///< of the launcher
  std::string host;
  std::string device;  ///< "reference" or "cuda"
  std::vector<CheckResult> checks;
  std::optional<AbnormalEnd> abnormal_end;
  std::uint64_t captures = 0;
  std::uint64_t replays = 0;
  std::uint64_t comparisons = 0;
  std::map<std::string, double> phase_milliseconds;
  std::map<std::string, double> measurements;  ///< bytes, counts and times by name
  /// Legs that an earlier cell had run, by name, and the id of that cell.
  std::map<std::string, std::string> shared_legs;
  std::string cell_digest;  ///< of configuration and plan, equal on all ranks of the gang
  friend bool operator==(const RankReport&, const RankReport&) = default;
};

/// An attempt at a cell that another one followed.
struct EarlierAttempt {
  int attempt = 0;
  Verdict verdict = Verdict::pass;
  std::string check_id;
  int failing_rank = -1;
  std::string reason;
  double seconds = 0.0;
  std::vector<RankReport> ranks;
  friend bool operator==(const EarlierAttempt&, const EarlierAttempt&) = default;
};

/// The merged result of one cell.
struct CellResult {
  std::uint64_t index = 0;
  std::string id;
  std::string hash;
  Verdict verdict = Verdict::pass;
  std::vector<std::string> rules;      ///< violated rules of a refused cell
  std::vector<std::string> lifted;     ///< rules whose guard was lifted for this cell
  std::string reason;                  ///< of a skip, or one line about the failure
  std::string check_id;                ///< the check that decided a failure
  int failing_rank = -1;               ///< world rank
  std::vector<std::string> secondary;  ///< further checks that fired
  std::string reproducer;              ///< the one line that repeats it
  int attempt = 0;
  bool provisional = false;
  std::uint64_t round = 0;  ///< of a run that repeats its cells, from 1 on; 0 in any other
  std::uint64_t seed = 0;   ///< of this round
  double seconds = 0.0;
  std::map<std::string, std::string> environment;  ///< variables that its workers started with
  std::vector<RankReport> ranks;
  std::vector<EarlierAttempt> earlier;
  friend bool operator==(const CellResult&, const CellResult&) = default;
};

}  // namespace cgconform::suites
