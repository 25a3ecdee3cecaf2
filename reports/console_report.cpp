#include "reports/console_report.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace cgconform::reports {

namespace {

constexpr const char* red = "31";
constexpr const char* green = "32";
constexpr const char* yellow = "33";
constexpr const char* bold = "1";

constexpr std::chrono::milliseconds live_interval{100};
constexpr std::chrono::seconds plain_interval{10};
/// Rounds listed at the end: half of them the first, half of them the last.
constexpr std::size_t rounds_shown = 20;

std::string duration_text(double seconds) {
  if (seconds < 60.0) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

/// Facts that every rank shares, and per fact the ranks that differ.
std::map<std::string, std::string> common_facts(const std::vector<RankInfo>& ranks) {
  std::map<std::string, std::string> common;
  if (ranks.empty()) return common;
  common = ranks.front().facts;
  for (const RankInfo& rank : ranks) {
    std::erase_if(common, [&rank](const auto& fact) {
      const auto found = rank.facts.find(fact.first);
      return found == rank.facts.end() || found->second != fact.second;
    });
  }
  return common;
}

}  // namespace

std::string ConsoleReport::paint(const char* code, const std::string& text) const {
  if (!options_.colour) return text;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

void ConsoleReport::begin(const RunInfo& info) {
  started_ = Clock::now();
  last_progress_ = started_;
  to_run_ = info.planned.run;
  report_directory_ = info.report_directory;
  if (options_.quiet) return;
  fmt::print(options_.out, "{} ({})\n", paint(bold, "cgconform " + info.version), info.git_commit);
  fmt::print(options_.out, "  command   {}\n", info.command_line);
  fmt::print(options_.out, "  started   {}\n", info.started);
  fmt::print(options_.out, "  matrix    {} (hash {}), seed {}, device {}\n", info.matrix,
             info.matrix_hash, info.seed, info.device);
  fmt::print(options_.out, "  cells     {} = {} run + {} refused + {} skipped\n",
             info.planned.total, info.planned.run, info.planned.refused, info.planned.skipped);
  if (!info.selection.empty()) fmt::print(options_.out, "  selection {}\n", info.selection);
  for (const std::string& notice : info.notices) {
    fmt::print(options_.out, "  {}    {}\n", paint(yellow, "notice"), notice);
  }
  print_ranks(info);
  std::fflush(options_.out);
}

void ConsoleReport::print_ranks(const RunInfo& info) {
  const std::map<std::string, std::string> common = common_facts(info.ranks);
  for (const auto& [name, value] : common) {
    fmt::print(options_.out, "  {:<9} {}\n", name, value);
  }
  for (const RankInfo& rank : info.ranks) {
    fmt::print(options_.out, "  rank {:<4} {} pid {} device {}", rank.world_rank, rank.host,
               rank.pid, rank.device);
    for (const auto& [name, value] : rank.facts) {
      if (!common.contains(name)) fmt::print(options_.out, " {}={}", name, value);
    }
    fmt::print(options_.out, "\n");
  }
}

void ConsoleReport::cell_finished(const suites::CellResult& result) {
  const suites::VerdictClass kind = suites::verdict_class(result.verdict);
  if (kind == suites::VerdictClass::refused || kind == suites::VerdictClass::skipped) return;
  print_round_before(result.round);
  tally_.add(result);
  if (!result.provisional) ++finished_;
  to_run_ = std::max(to_run_, finished_);  // a run that soaks goes on beyond its first round
  if (kind == suites::VerdictClass::good) {
    if (!result.provisional) ++passed_;
  } else {
    if (!result.provisional) ++failed_;
    if (!result.provisional && shown_failures_ < options_.max_failures_shown) {
      ++shown_failures_;
      print_failure(result);
    }
  }
  if (!options_.quiet) print_progress(false);
}

/// Says how the last round came out when the first cell of the next one has its verdict.
void ConsoleReport::print_round_before(std::uint64_t round) {
  const auto& rounds = tally_.rounds();
  if (options_.quiet || rounds.empty() || round <= rounds.size()) return;
  clear_live_line();
  fmt::print(options_.out, "{}\n", round_text(rounds.back()));
}

void ConsoleReport::print_rounds(const RunSummary& summary) const {
  if (summary.rounds.empty()) return;
  fmt::print(options_.out, "\n{}\n", paint(bold, "Rounds"));
  const std::size_t count = summary.rounds.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i == rounds_shown / 2 && count > rounds_shown) {
      fmt::print(options_.out, "  and {} more, in summary.json\n", count - rounds_shown);
      i = count - rounds_shown / 2;
    }
    fmt::print(options_.out, "  {}\n", round_text(summary.rounds[i]));
  }
  const std::string trend = trend_text(summary.rounds);
  if (!trend.empty()) fmt::print(options_.out, "  {}\n", trend);
}

void ConsoleReport::print_failure(const suites::CellResult& result) {
  clear_live_line();
  std::string text = describe_failure(result);
  const std::size_t end_of_verdict = std::min(text.find(' '), text.size());
  fmt::print(options_.out, "{}{}", paint(red, text.substr(0, end_of_verdict)),
             text.substr(end_of_verdict));
  std::fflush(options_.out);
}

void ConsoleReport::print_progress(bool last) {
  const Clock::time_point now = Clock::now();
  const Clock::duration interval =
      options_.live_line ? Clock::duration(live_interval) : Clock::duration(plain_interval);
  if (!last && now - last_progress_ < interval) return;
  last_progress_ = now;
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  std::string estimate;
  if (!last && finished_ > 0 && finished_ < to_run_) {
    const double each = elapsed / static_cast<double>(finished_);
    estimate =
        ", about " + duration_text(each * static_cast<double>(to_run_ - finished_)) + " left";
  }
  const std::string line = fmt::format("{} of {} cells, {} good, {} bad, {}{}", finished_, to_run_,
                                       passed_, failed_, duration_text(elapsed), estimate);
  if (options_.live_line) {
    fmt::print(options_.out, "\r\x1b[K{}", line);
    live_line_drawn_ = true;
  } else {
    fmt::print(options_.out, "{}\n", line);
  }
  std::fflush(options_.out);
}

void ConsoleReport::clear_live_line() {
  if (!live_line_drawn_) return;
  fmt::print(options_.out, "\r\x1b[K");
  live_line_drawn_ = false;
}

void ConsoleReport::end(const RunSummary& summary) {
  if (!options_.quiet) print_progress(true);
  if (live_line_drawn_) fmt::print(options_.out, "\n");
  live_line_drawn_ = false;

  fmt::print(options_.out, "\n{}\n", paint(bold, "Summary"));
  for (const auto& [verdict, count] : summary.verdicts) {
    const suites::VerdictClass kind = suites::verdict_class(verdict);
    const char* colour = kind == suites::VerdictClass::bad           ? red
                         : kind == suites::VerdictClass::environment ? yellow
                         : kind == suites::VerdictClass::good        ? green
                                                                     : bold;
    fmt::print(options_.out, "  {:>8}  {}\n", count,
               paint(colour, std::string(suites::verdict_name(verdict))));
  }
  if (!summary.refused_by_rule.empty()) {
    fmt::print(options_.out, "  refused, by violated rule (a cell can violate several):\n");
    for (const auto& [rule, count] : summary.refused_by_rule) {
      fmt::print(options_.out, "  {:>8}    {}\n", count, rule);
    }
  }
  if (!summary.skipped_by_reason.empty()) {
    fmt::print(options_.out, "  skipped, by reason:\n");
    for (const auto& [reason, count] : summary.skipped_by_reason) {
      fmt::print(options_.out, "  {:>8}    {}\n", count, reason);
    }
  }
  if (summary.missing > 0) {
    fmt::print(options_.out, "  {:>8}  {}\n", summary.missing,
               paint(red, "planned cells without a verdict"));
  }
  print_rounds(summary);
  if (!summary.failures.empty()) {
    fmt::print(options_.out, "\n{}\n", paint(bold, "Failed cells"));
    std::uint64_t listed = 0;
    for (const FailedCell& cell : summary.failures) {
      if (++listed > options_.max_failures_shown) {
        fmt::print(options_.out, "  and {} more, in results.jsonl\n",
                   summary.failures.size() - options_.max_failures_shown);
        break;
      }
      fmt::print(
          options_.out, "  {} {} {}{}{}{}\n    {}\n",
          paint(red, std::string(suites::verdict_name(cell.verdict))), cell.hash, cell.id,
          cell.check_id.empty() ? "" : ", check " + cell.check_id,
          cell.failing_rank < 0 ? std::string() : fmt::format(", rank {}", cell.failing_rank),
          cell.round == 0 ? std::string()
                          : fmt::format(", round {}; good in {} of {} rounds", cell.round,
                                        cell.rate.good, cell.rate.rounds),
          cell.reproducer);
    }
  }
  fmt::print(options_.out, "\ntotal {} = run {} + refused {} + skipped {}, in {}\n",
             summary.counts.total, summary.counts.run, summary.counts.refused,
             summary.counts.skipped, duration_text(summary.seconds));
  fmt::print(options_.out, "exit code {}: {}\n", summary.exit_code,
             paint(summary.exit_code == 0 ? green : red, summary.exit_meaning));
  if (!report_directory_.empty()) fmt::print(options_.out, "report: {}\n", report_directory_);
  if (!summary.resume_line.empty()) fmt::print(options_.out, "resume: {}\n", summary.resume_line);
  std::fflush(options_.out);
}

}  // namespace cgconform::reports
