#include "harness/attempts.hpp"

#include <algorithm>
#include <csignal>
#include <string>

#include <fmt/format.h>

#include "suites/coverage_plan.hpp"
#include "suites/merge.hpp"

namespace cgconform::harness {
namespace {

using suites::CellResult;
using suites::RankReport;
using suites::Verdict;

/// Every rank compares; where graphs are asked for it captures and replays, too, unless its stage
/// has no layer in their scope, which must capture nothing.
bool tested_something(const RankReport& report, const PlannedCell& planned) {
  if (report.comparisons == 0) return false;
  if (planned.baseline) return true;
  if (suites::captures_elsewhere_only(planned.cell, report.rank)) {
    return report.captures == 0 && report.replays == 0;
  }
  return report.captures > 0 && report.replays > 0;
}

void audit_coverage(const FinishedAttempt& attempt, CellResult& result) {
  for (const RankReport& report : attempt.reports) {
    if (tested_something(report, attempt.planned)) continue;
    result.verdict = Verdict::fail_coverage;
    result.check_id = "SUI-02";
    result.failing_rank = report.world_rank;
    result.reason = fmt::format("{} captures, {} replays and {} comparisons", report.captures,
                                report.replays, report.comparisons);
    return;
  }
}

std::string outcome(const CellResult& result) {
  return fmt::format("{}{}", suites::verdict_name(result.verdict),
                     result.reason.empty() ? std::string() : fmt::format(" ({})", result.reason));
}

}  // namespace

CellResult judge_attempt(const FinishedAttempt& attempt) {
  CellResult result = suites::merge_reports({.index = attempt.planned.cell.index,
                                             .id = attempt.planned.name.id,
                                             .hash = attempt.planned.name.hash,
                                             .ranks = static_cast<int>(attempt.world_ranks.size())},
                                            attempt.reports);
  result.attempt = attempt.attempt;
  result.round = attempt.planned.round;
  result.seconds = attempt.seconds;
  result.environment = attempt.planned.environment;
  if (suites::verdict_class(result.verdict) == suites::VerdictClass::good &&
      attempt.planned.scenario.empty()) {
    audit_coverage(attempt, result);
  }
  return result;
}

CellResult merge_attempts(const CellResult& first, const CellResult& second) {
  CellResult result = second;
  result.seconds = first.seconds + second.seconds;
  result.earlier.push_back({first.attempt, first.verdict, first.check_id, first.failing_rank,
                            first.reason, first.seconds, first.ranks});
  if (first.verdict == second.verdict) return result;
  const CellResult& failed = suites::is_bad(first.verdict) ? first : second;
  result.verdict = Verdict::flaky;
  result.check_id = failed.check_id;
  result.failing_rank = failed.failing_rank;
  result.secondary = failed.secondary;
  result.reason = fmt::format("attempt {} in a kept worker: {}; attempt {} in a fresh worker: {}",
                              first.attempt, outcome(first), second.attempt, outcome(second));
  return result;
}

bool was_killed(const CellResult& result) {
  return std::any_of(result.ranks.begin(), result.ranks.end(), [](const RankReport& report) {
    return report.abnormal_end && !report.abnormal_end->ended_by_peer &&
           report.abnormal_end->signal == SIGKILL;
  });
}

bool deserves_second_attempt(const CellResult& result, bool fresh) {
  return !fresh && suites::is_bad(result.verdict) && !was_killed(result);
}

}  // namespace cgconform::harness
