#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "suites/result_record.hpp"

namespace cgconform::reports {

/// One round of a run that repeats its cells.
struct RoundSummary {
  std::uint64_t round = 0;
  std::uint64_t seed = 0;  ///< of its cells
  std::uint64_t cells = 0;
  std::uint64_t good = 0;
  double seconds = 0.0;       ///< of its cells together
  double memory_bytes = 0.0;  ///< most that a worker held after one of its cells; 0 if not measured
};

/// How often a cell came out well over the rounds.
struct PassRate {
  std::uint64_t good = 0;
  std::uint64_t rounds = 0;
};

/// Name of the measurement that RoundSummary::memory_bytes is the maximum of.
inline constexpr const char* worker_memory = "worker resident bytes";

/// Sums results up by round and by cell. Results without a round, and cells that did not run, are
/// left out.
class RoundTally {
 public:
  void add(const suites::CellResult& result);
  const std::vector<RoundSummary>& rounds() const { return rounds_; }
  PassRate rate(const std::string& cell_hash) const;

 private:
  std::vector<RoundSummary> rounds_;  ///< by round, from 1 on
  std::map<std::string, PassRate> rates_;
};

/// `round 3 (seed 17): 24 cells, 23 good, 5.2 s, worker memory 31.0 MiB`.
std::string round_text(const RoundSummary& round);

/// The first round against the last: `trend: 0.211 s a cell in round 1, 0.210 s in round 40`, with
/// the workers' memory where it was measured; empty with fewer than two rounds.
std::string trend_text(const std::vector<RoundSummary>& rounds);

}  // namespace cgconform::reports
