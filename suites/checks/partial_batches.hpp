#pragma once

#include "suites/check.hpp"

/// Last micro-batches that hold fewer sequences than graphs are captured for.
namespace cgconform::suites::checks {

/// Cells whose implementation captures and whose data runs out.
bool graph_cells_with_partial_batches(const matrix::Cell& cell);

/// NUM-26: steps with a partial micro-batch are right, and it took the path that the cell asks for:
/// from graphs, padded to their shape, or eagerly beside them.
CheckResult judge_partial_batches(JudgeContext& context);

}  // namespace cgconform::suites::checks
