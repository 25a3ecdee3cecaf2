#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "matrix/cell_order.hpp"

namespace cgconform::harness {

/// Which of the selected cells a run takes, in which order, how often and how long.
struct Selection {
  using Milliseconds = std::chrono::milliseconds;
  matrix::Shard shard;
  bool shuffle = false;
  std::optional<Milliseconds> budget;
  std::uint64_t repeat = 1;
  std::optional<Milliseconds> soak;
  bool fail_fast = false;
  std::string rerun_failed;  ///< folder of the earlier report; empty for none
  bool allow_empty = false;
  std::optional<std::uint64_t> max_skips;

  bool has_rounds() const { return repeat > 1 || soak; }
};

/// The seconds of a time such as `90`, `90s`, `1.5h`, `30m` or `500ms`. Throws InputError that
/// begins with `option`.
std::chrono::milliseconds time_from(const std::string& option, const std::string& text);

/// The shard of a text `I/N` with 1 <= I <= N. Throws InputError.
matrix::Shard shard_from(const std::string& text);

/// A whole number of at least `least`. Throws InputError that begins with `option`.
std::uint64_t count_from(const std::string& option, const std::string& text, std::uint64_t least);

/// `30 min`, `1.5 s`.
std::string time_text(std::chrono::milliseconds time);

/// What differs from a run of every selected cell once, one `name=value` an option.
std::vector<std::string> selection_lines(const Selection& selection);

/// The same for people, `shard 2/4, shuffled by seed 7`; empty where nothing differs.
std::string selection_text(const Selection& selection, std::uint64_t seed);

}  // namespace cgconform::harness
