#include "suites/merge.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace cgconform::suites {
namespace {

/// One thing that speaks against a cell, on one rank.
struct Finding {
  Verdict verdict = Verdict::pass;
  std::string check_id;
  std::string reason;
  int world_rank = -1;
};

std::string describe(const AbnormalEnd& end) {
  std::string how = end.verdict == Verdict::hang ? "missed the deadline" : "ended";
  if (end.signal != 0) how += fmt::format(" by signal {}", end.signal);
  if (end.signal == 0 && end.exit_code != 0)
    how += fmt::format(" with exit code {}", end.exit_code);
  std::string where = fmt::format("in phase {}", end.phase.empty() ? "unknown" : end.phase);
  if (!end.last_operation.empty()) where += fmt::format(" at '{}'", end.last_operation);
  return fmt::format("the worker {} {}", how, where);
}

void collect(const RankReport& report, std::vector<Finding>& findings) {
  if (report.abnormal_end && report.abnormal_end->ended_by_peer) return;
  // What a check says of an end tells more than the end.
  for (const CheckResult& check : report.checks) {
    if (cause_rank(check.verdict) == cause_order().size()) continue;
    findings.push_back({check.verdict, check.check_id, check.detail, report.world_rank});
  }
  if (report.abnormal_end) {
    const AbnormalEnd& end = *report.abnormal_end;
    // An abnormal end is a failure whatever verdict stands in it.
    const bool failing = is_bad(end.verdict) || end.verdict == Verdict::inconclusive_env;
    const std::string_view check = end.verdict == Verdict::hang ? "SUI-05" : "SUI-04";
    findings.push_back({failing ? end.verdict : Verdict::crash, std::string(check), describe(end),
                        report.world_rank});
  } else if (report.checks.empty()) {
    findings.push_back(
        {Verdict::fail_coverage, "SUI-02", "the rank judged no check", report.world_rank});
  }
}

void audit_completeness(const MergeTarget& target, const std::vector<RankReport>& reports,
                        std::vector<Finding>& findings) {
  std::vector<int> seen(static_cast<std::size_t>(std::max(target.ranks, 0)), 0);
  for (const RankReport& report : reports) {
    if (report.rank < 0 || report.rank >= target.ranks) {
      findings.push_back(
          {Verdict::fail_suite, "SUI-04",
           fmt::format("a report names rank {} of a gang of {}", report.rank, target.ranks),
           report.world_rank});
    } else if (++seen[static_cast<std::size_t>(report.rank)] == 2) {
      findings.push_back({Verdict::fail_suite, "SUI-04",
                          fmt::format("rank {} of the gang reported twice", report.rank),
                          report.world_rank});
    }
  }
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (seen[rank] > 0) continue;
    findings.push_back({Verdict::fail_suite, "SUI-04",
                        fmt::format("rank {} of the gang gave no report", rank), -1});
  }
}

void audit_digests(const std::vector<RankReport>& reports, std::vector<Finding>& findings) {
  const RankReport* first = nullptr;
  for (const RankReport& report : reports) {
    if (report.abnormal_end) continue;  // it may have died before it knew its digest
    if (first == nullptr) {
      first = &report;
    } else if (report.cell_digest != first->cell_digest) {
      findings.push_back(
          {Verdict::fail_suite, "SUI-04",
           fmt::format("rank {} of the gang ran another cell than rank {}: digests "
                       "'{}' and '{}'",
                       report.rank, first->rank, report.cell_digest, first->cell_digest),
           report.world_rank});
    }
  }
}

/// The verdict of a cell nothing speaks against.
Verdict quiet_verdict(const std::vector<RankReport>& reports) {
  bool tested = false;
  for (const RankReport& report : reports) {
    for (const CheckResult& check : report.checks) {
      if (check.verdict == Verdict::baseline) return Verdict::baseline;
      if (check.verdict == Verdict::pass) tested = true;
    }
  }
  return tested ? Verdict::pass : Verdict::skip;
}

}  // namespace

CellResult merge_reports(const MergeTarget& target, std::vector<RankReport> reports) {
  std::stable_sort(reports.begin(), reports.end(),
                   [](const RankReport& a, const RankReport& b) { return a.rank < b.rank; });
  std::vector<Finding> findings;
  for (const RankReport& report : reports) collect(report, findings);
  audit_completeness(target, reports, findings);
  audit_digests(reports, findings);

  CellResult result{.index = target.index, .id = target.id, .hash = target.hash};
  if (findings.empty()) {
    result.verdict = quiet_verdict(reports);
    if (result.verdict == Verdict::skip) result.reason = reports.front().checks.front().detail;
  } else {
    const auto first =
        std::min_element(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
          return cause_rank(a.verdict) < cause_rank(b.verdict);
        });
    result.verdict = first->verdict;
    result.check_id = first->check_id;
    result.reason = first->reason;
    result.failing_rank = first->world_rank;
    std::set<std::string> named{
        fmt::format("{} {}", first->check_id, verdict_name(first->verdict))};
    for (const Finding& finding : findings) {
      std::string name = fmt::format("{} {}", finding.check_id, verdict_name(finding.verdict));
      if (named.insert(name).second) result.secondary.push_back(std::move(name));
    }
  }
  result.ranks = std::move(reports);
  return result;
}

}  // namespace cgconform::suites
