#include "harness/selection.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

constexpr double longest_time_seconds = 1e8;

constexpr std::array<std::pair<std::string_view, double>, 5> time_units{{
    {"", 1.0},
    {"ms", 1e-3},
    {"s", 1.0},
    {"m", 60.0},
    {"h", 3600.0},
}};

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

std::chrono::milliseconds time_from(const std::string& option, const std::string& text) {
  double number = 0.0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  const auto* row = std::find_if(time_units.begin(), time_units.end(),
                                 [&](const auto& known) { return known.first == unit; });
  const bool read = parsed.ec == std::errc() && row != time_units.end();
  const double seconds = read ? number * row->second : 0.0;
  if (!read || !std::isfinite(seconds) || seconds < 1e-3 || seconds > longest_time_seconds) {
    throw InputError(fmt::format(
        "{} {}: must be a time above 0, such as 90s, 30m, 2h or 500ms; without a unit it is "
        "seconds",
        option, text));
  }
  return std::chrono::milliseconds{static_cast<std::int64_t>(std::ceil(seconds * 1e3))};
}

matrix::Shard shard_from(const std::string& text) {
  const std::size_t slash = text.find('/');
  const std::uint64_t index = whole_number(text.substr(0, slash)).value_or(0);
  const std::string rest = slash == std::string::npos ? std::string() : text.substr(slash + 1);
  const std::uint64_t count = whole_number(rest).value_or(0);
  if (index < 1 || index > count || count > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError(fmt::format(
        "--shard {}: must be I/N with I from 1 to N, such as 1/4 for the first of four parts",
        text));
  }
  return {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(count)};
}

std::uint64_t count_from(const std::string& option, const std::string& text, std::uint64_t least) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  const auto count = whole_number(text);
  if (!count || *count < least || *count > most) {
    throw InputError(
        fmt::format("{} {}: must be a whole number from {} to {}", option, text, least, most));
  }
  return *count;
}

std::string time_text(std::chrono::milliseconds time) {
  const auto count = time.count();
  if (count % 3'600'000 == 0) return fmt::format("{} h", count / 3'600'000);
  if (count % 60'000 == 0) return fmt::format("{} min", count / 60'000);
  return fmt::format("{} s", static_cast<double>(count) / 1e3);
}

std::vector<std::string> selection_lines(const Selection& selection) {
  std::vector<std::string> lines;
  if (selection.shard.count > 1) {
    lines.push_back(fmt::format("shard={}/{}", selection.shard.index, selection.shard.count));
  }
  if (selection.shuffle) lines.emplace_back("shuffle");
  if (selection.budget) lines.push_back(fmt::format("budget={}", selection.budget->count()));
  if (selection.repeat > 1) lines.push_back(fmt::format("repeat={}", selection.repeat));
  if (selection.soak) lines.push_back(fmt::format("soak={}", selection.soak->count()));
  if (selection.fail_fast) lines.emplace_back("fail_fast");
  if (!selection.rerun_failed.empty()) {
    lines.push_back(fmt::format("rerun_failed={}", selection.rerun_failed));
  }
  if (selection.allow_empty) lines.emplace_back("allow_empty");
  if (selection.max_skips) lines.push_back(fmt::format("max_skips={}", *selection.max_skips));
  return lines;
}

std::string selection_text(const Selection& selection, std::uint64_t seed) {
  std::vector<std::string> parts;
  if (!selection.rerun_failed.empty()) {
    parts.push_back(fmt::format("failed cells of {}", selection.rerun_failed));
  }
  if (selection.shard.count > 1) {
    parts.push_back(fmt::format("shard {}/{}", selection.shard.index, selection.shard.count));
  }
  if (selection.budget) {
    parts.push_back(fmt::format("best coverage first within {}", time_text(*selection.budget)));
  }
  if (selection.shuffle) parts.push_back(fmt::format("shuffled by seed {}", seed));
  if (selection.repeat > 1) parts.push_back(fmt::format("{} times", selection.repeat));
  if (selection.soak) {
    parts.push_back(fmt::format("round after round for {}", time_text(*selection.soak)));
  }
  if (selection.fail_fast) parts.emplace_back("until the first failure");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace cgconform::harness
