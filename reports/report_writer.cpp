#include "reports/report_writer.hpp"

#include <utility>

namespace cgconform::reports {

namespace {

bool counts_as_run(suites::Verdict verdict) {
  const suites::VerdictClass kind = suites::verdict_class(verdict);
  return kind != suites::VerdictClass::refused && kind != suites::VerdictClass::skipped;
}

}  // namespace

std::string skip_category(const std::string& reason) {
  static constexpr std::string_view duplicate = "duplicate of";
  if (reason.starts_with(duplicate)) return std::string(duplicate);
  return reason;
}

void SummaryCollector::add(const suites::CellResult& result) {
  if (result.provisional) return;
  tally_.add(result);
  ++summary_.verdicts[result.verdict];
  if (counts_as_run(result.verdict)) ++finished_;
  for (const std::string& rule : result.rules) ++summary_.refused_by_rule[rule];
  if (result.verdict == suites::Verdict::skip) {
    ++summary_.skipped_by_reason[skip_category(result.reason)];
  }
  const suites::VerdictClass kind = suites::verdict_class(result.verdict);
  if (kind == suites::VerdictClass::bad || kind == suites::VerdictClass::environment) {
    summary_.failures.push_back({result.id, result.hash, result.verdict, result.failing_rank,
                                 result.check_id, result.reason, result.reproducer, result.round,
                                 PassRate{}});
  }
}

RunSummary SummaryCollector::finish(int exit_code, std::string exit_meaning, double seconds) const {
  RunSummary summary = summary_;
  // Cells that were planned to run and were refused or skipped all the same have their verdict.
  const auto beyond = [&](suites::Verdict verdict, std::uint64_t planned) {
    const auto found = summary.verdicts.find(verdict);
    return found != summary.verdicts.end() && found->second > planned ? found->second - planned : 0;
  };
  const std::uint64_t decided =
      finished_ + beyond(suites::Verdict::skip, summary.counts.skipped) +
      beyond(suites::Verdict::rejected_constraint, summary.counts.refused);
  summary.missing = decided < summary.counts.run ? summary.counts.run - decided : 0;
  summary.rounds = tally_.rounds();
  for (FailedCell& cell : summary.failures) cell.rate = tally_.rate(cell.hash);
  summary.exit_code = exit_code;
  summary.exit_meaning = std::move(exit_meaning);
  summary.seconds = seconds;
  return summary;
}

}  // namespace cgconform::reports
