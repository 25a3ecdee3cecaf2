#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "reports/console_report.hpp"

namespace cgconform::reports {

namespace {

constexpr std::size_t max_stack_frames_shown = 12;

const suites::RankReport* rank_report(const suites::CellResult& result, int world_rank) {
  const auto found = std::find_if(
      result.ranks.begin(), result.ranks.end(),
      [world_rank](const suites::RankReport& rank) { return rank.world_rank == world_rank; });
  return found == result.ranks.end() ? nullptr : &*found;
}

void describe_check(const suites::CheckResult& check, std::string& text) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "  {} {}: {}\n", check.check_id, suites::verdict_name(check.verdict),
                 check.detail);
  if (!check.divergence) return;
  const suites::Divergence& d = *check.divergence;
  fmt::format_to(out, "    first wrong tensor: {}\n", describe_location(d));
  fmt::format_to(out,
                 "    expected {:.9g}, got {:.9g}; {} of {} elements differ, largest absolute "
                 "{:.3g}, relative {:.3g}, {} ulp\n",
                 d.expected, d.actual, d.bad_count, d.element_count, d.max_abs, d.max_rel,
                 d.max_ulp);
}

void describe_end(const suites::RankReport& rank, std::string& text) {
  const suites::AbnormalEnd& end = *rank.abnormal_end;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "  rank {} on {}: {} in phase {}", rank.world_rank, rank.host,
                 suites::verdict_name(end.verdict), end.phase.empty() ? "unknown" : end.phase);
  if (end.signal != 0) fmt::format_to(out, ", signal {}", end.signal);
  if (end.signal == 0 && end.verdict == suites::Verdict::crash) {
    fmt::format_to(out, ", exit code {}", end.exit_code);
  }
  if (!end.last_operation.empty()) fmt::format_to(out, ", last operation {}", end.last_operation);
  text += '\n';
  const std::size_t shown = std::min(end.stack.size(), max_stack_frames_shown);
  for (std::size_t frame = 0; frame < shown; ++frame) {
    fmt::format_to(out, "    #{} {}\n", frame, end.stack[frame]);
  }
  if (shown < end.stack.size()) {
    fmt::format_to(out, "    ... {} more frames in results.jsonl\n", end.stack.size() - shown);
  }
}

}  // namespace

std::string describe_location(const suites::Divergence& divergence) {
  std::string text;
  auto out = std::back_inserter(text);
  if (divergence.step >= 0) fmt::format_to(out, "step {}, ", divergence.step);
  if (divergence.microbatch >= 0) fmt::format_to(out, "micro-batch {}, ", divergence.microbatch);
  if (divergence.layer >= 0) fmt::format_to(out, "layer {}, ", divergence.layer);
  fmt::format_to(out, "{}", divergence.tensor);
  if (divergence.first_bad_index >= 0) fmt::format_to(out, "[{}]", divergence.first_bad_index);
  return text;
}

std::string describe_failure(const suites::CellResult& result) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{} {}\n", suites::verdict_name(result.verdict), result.id);
  if (result.failing_rank >= 0) {
    const suites::RankReport* rank = rank_report(result, result.failing_rank);
    fmt::format_to(out, "  rank {}{}", result.failing_rank,
                   rank == nullptr ? std::string() : fmt::format(" on {}", rank->host));
    if (!result.check_id.empty()) fmt::format_to(out, ", check {}", result.check_id);
    text += '\n';
  }
  if (!result.reason.empty()) fmt::format_to(out, "  {}\n", result.reason);

  const suites::RankReport* first = rank_report(result, result.failing_rank);
  if (first != nullptr) {
    for (const suites::CheckResult& check : first->checks) {
      if (check.check_id == result.check_id && suites::is_bad(check.verdict)) {
        describe_check(check, text);
      }
    }
  }
  for (const suites::RankReport& rank : result.ranks) {
    if (rank.abnormal_end) describe_end(rank, text);
  }
  if (!result.secondary.empty()) {
    fmt::format_to(out, "  also fired: {}\n", fmt::join(result.secondary, ", "));
  }
  if (!result.reproducer.empty()) fmt::format_to(out, "  repeat: {}\n", result.reproducer);
  return text;
}

}  // namespace cgconform::reports
