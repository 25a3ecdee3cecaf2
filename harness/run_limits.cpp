#include "harness/run_limits.hpp"

#include <algorithm>
#include <array>

namespace cgconform::harness {

bool is_asked_for(std::string_view skip_reason) {
  constexpr std::array reasons{budget_reason, fail_fast_reason, soak_reason};
  return std::find(reasons.begin(), reasons.end(), skip_reason) != reasons.end();
}

void RunLimits::note(const suites::CellResult& result) {
  failed_ = failed_ || suites::is_bad(result.verdict);
}

std::string RunLimits::reason_to_stop(Clock::time_point now) const {
  if (selection_.fail_fast && failed_) return std::string(fail_fast_reason);
  if (!begun_) return {};
  const auto over = [&](const std::optional<std::chrono::milliseconds>& time) {
    return time && now - *begun_ >= *time;
  };
  if (over(selection_.budget)) return std::string(budget_reason);
  if (over(selection_.soak)) return std::string(soak_reason);
  return {};
}

}  // namespace cgconform::harness
