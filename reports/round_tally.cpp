#include "reports/round_tally.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace cgconform::reports {
namespace {

constexpr double mebibyte = 1024.0 * 1024.0;

double seconds_a_cell(const RoundSummary& round) {
  return round.cells == 0 ? 0.0 : round.seconds / static_cast<double>(round.cells);
}

}  // namespace

void RoundTally::add(const suites::CellResult& result) {
  const suites::VerdictClass kind = suites::verdict_class(result.verdict);
  const bool ran = kind != suites::VerdictClass::refused && kind != suites::VerdictClass::skipped;
  if (result.round == 0 || result.provisional || !ran) return;
  while (rounds_.size() < result.round) {
    const std::uint64_t number = rounds_.size() + 1;
    rounds_.emplace_back().round = number;
  }
  const bool good = kind == suites::VerdictClass::good;
  RoundSummary& round = rounds_[result.round - 1];
  round.seed = result.seed;
  ++round.cells;
  round.good += good ? 1 : 0;
  round.seconds += result.seconds;
  for (const suites::RankReport& rank : result.ranks) {
    const auto memory = rank.measurements.find(worker_memory);
    if (memory == rank.measurements.end()) continue;
    round.memory_bytes = std::max(round.memory_bytes, memory->second);
  }
  PassRate& rate = rates_[result.hash];
  ++rate.rounds;
  rate.good += good ? 1 : 0;
}

PassRate RoundTally::rate(const std::string& cell_hash) const {
  const auto found = rates_.find(cell_hash);
  return found == rates_.end() ? PassRate{} : found->second;
}

std::string round_text(const RoundSummary& round) {
  std::string text = fmt::format("round {} (seed {}): {} cells, {} good, {:.1f} s", round.round,
                                 round.seed, round.cells, round.good, round.seconds);
  if (round.memory_bytes > 0.0) {
    text += fmt::format(", worker memory {:.1f} MiB", round.memory_bytes / mebibyte);
  }
  return text;
}

std::string trend_text(const std::vector<RoundSummary>& rounds) {
  // A round that was cut off before its first cell says nothing.
  const auto last = std::find_if(rounds.rbegin(), rounds.rend(),
                                 [](const RoundSummary& round) { return round.cells > 0; });
  if (rounds.empty() || last == rounds.rend() || last->round == rounds.front().round) return {};
  const RoundSummary& first = rounds.front();
  std::string text =
      fmt::format("trend: {:.3f} s a cell in round {}, {:.3f} s in round {}", seconds_a_cell(first),
                  first.round, seconds_a_cell(*last), last->round);
  if (first.memory_bytes > 0.0 && last->memory_bytes > 0.0) {
    text += fmt::format("; worker memory {:.1f} MiB, then {:.1f} MiB",
                        first.memory_bytes / mebibyte, last->memory_bytes / mebibyte);
  }
  return text;
}

}  // namespace cgconform::reports
