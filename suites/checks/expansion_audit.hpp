#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "matrix/expansion.hpp"
#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// What became of the cells of an expansion.
struct ExpansionCount {
  std::uint64_t total = 0;
  std::uint64_t run = 0;
  std::uint64_t refused = 0;
  std::uint64_t skipped = 0;
  std::uint64_t digest = 0;  ///< over ids and verdicts in order
};

/// Classifies every `stride`-th cell. `problem` says what is wrong: a cell in no class, a refusal
/// without a rule, a skip without a reason, an id that does not lead back to its cell, or an id
/// that two cells share.
ExpansionCount count_expansion(const matrix::Expansion& expansion, std::uint64_t stride,
                               std::optional<std::string>& problem);

/// SUI-03: the built-in matrices, each expanded twice.
CheckResult judge_expansion(ScenarioContext& context);

}  // namespace cgconform::suites::checks
