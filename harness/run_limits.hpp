#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "harness/selection.hpp"
#include "suites/result_record.hpp"

namespace cgconform::harness {

/// Why the cells that a run no longer starts are skipped: they were planned to run.
inline constexpr std::string_view budget_reason = "budget";
inline constexpr std::string_view fail_fast_reason = "fail-fast";
inline constexpr std::string_view soak_reason = "soak time is over";

/// True for the reasons above: the user asked for the skip.
bool is_asked_for(std::string_view skip_reason);

/// Says when a run starts no further cell. What runs already, and second attempts, go on.
class RunLimits {
 public:
  using Clock = std::chrono::steady_clock;
  explicit RunLimits(const Selection& selection) : selection_(selection) {}

  void begin(Clock::time_point now) { begun_ = now; }
  /// Every result with a failing verdict, provisional ones included.
  void note(const suites::CellResult& result);
  /// The reason to start no further cell; empty as long as there is none.
  std::string reason_to_stop(Clock::time_point now) const;

 private:
  Selection selection_;
  std::optional<Clock::time_point> begun_;
  bool failed_ = false;
};

}  // namespace cgconform::harness
