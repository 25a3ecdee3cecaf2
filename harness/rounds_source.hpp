#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "harness/planned_cell.hpp"
#include "harness/selection.hpp"

namespace cgconform::harness {

/// Makes the source of one round; rounds are counted from 1.
using RoundFactory = std::function<std::unique_ptr<CellSource>(std::uint64_t round)>;

/// The cells of a run that repeats them: all rounds of `--repeat`, or one after the other until it
/// is told to stop where the selection soaks. Refused and skipped cells come in the first round
/// alone. The counts of a soaking run are those of the rounds handed out so far. A run without
/// rounds gets the source of its first one.
std::unique_ptr<CellSource> rounds_source(const Selection& selection, std::uint64_t seed,
                                          RoundFactory factory);

}  // namespace cgconform::harness
