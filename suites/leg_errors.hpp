#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "suites/leg_set.hpp"
#include "suites/result_record.hpp"
#include "workloads/device/errors.hpp"
#include "workloads/device/progress.hpp"
#include "workloads/training/leg_record.hpp"

namespace cgconform::suites {

/// How a leg ended on one rank, as ranks tell each other.
struct LegOutcome {
  workloads::ErrorCategory category = workloads::ErrorCategory::success;
  workloads::Phase phase = workloads::Phase::idle;
  std::string error;           ///< empty where the leg ran to its end
  std::uint64_t topology = 0;  ///< of the leg's graphs, see graph_topology.hpp
  bool failed() const { return !error.empty(); }
  /// True for errors that a peer's failure causes: they explain nothing.
  bool is_consequence() const;

  std::string encode() const;
  /// False for what a rank says that is still in the leg.
  static bool is_outcome(std::string_view text);
  /// Throws InternalError where the text is no outcome.
  static LegOutcome decode(std::string_view text);
};
LegOutcome outcome_of(const workloads::LegRecord& record);

/// A leg that failed somewhere in the gang, and the rank that explains it.
struct LegFailure {
  workloads::LegRequest leg;
  LegOutcome outcome;
  int rank = -1;  ///< in the gang
};

/// The rank whose error explains the failure of a leg: the first with an error of its own, else the
/// first with any. Empty where no rank failed.
std::optional<LegFailure> find_failure(const workloads::LegRequest& leg,
                                       std::span<const LegOutcome> outcomes);

/// What a leg that ended early means, as the result of the check that watches such ends.
CheckResult judge_failure(const LegFailure& failure, int own_rank);

}  // namespace cgconform::suites
