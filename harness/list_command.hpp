#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "matrix/cell_plan.hpp"

namespace cgconform::harness {

/// How the cells of a plan are printed without running them.
enum class ListFormat : std::uint8_t {
  text,  ///< `--list`: a line for each cell, parted by tabs: id, hash, ranks, what becomes of it
  json_lines,  ///< `--list=json`: the same as a JSON object a line
  dry_run,     ///< `--dry-run`: what would be done, with ranks, cost, environment and launch line
};

struct ListOptions {
  ListFormat format = ListFormat::text;
  std::string matrix_argument;         ///< what `--matrix` was given, for launch lines
  std::int32_t ranks = 0;              ///< of this run; 0 where it is unknown
  std::uint64_t repeat = 1;            ///< how often each cell would be run
  std::vector<std::string> scenarios;  ///< ids of what would be run beside the cells
  std::FILE* output = stdout;
  std::FILE* summary = stderr;  ///< where `--list` puts the line of totals
};

/// Prints the plan. `--list` and `--list=json` leave their output to the cells alone and write the
/// totals to `summary`; `--dry-run` ends with the totals by reason. Where the reader closes the
/// pipe, as `head` does, the rest is left out silently. Throws Error where the output cannot be
/// written for another reason.
void list_cells(const matrix::CellPlan& plan, const ListOptions& options);

}  // namespace cgconform::harness
