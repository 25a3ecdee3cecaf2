#pragma once

#include "suites/check.hpp"

/// Clipping of gradients by their global norm.
namespace cgconform::suites::checks {

/// Cells whose implementation captures and that clip gradients.
bool graph_cells_that_clip(const matrix::Cell& cell);

/// NUM-19: global norm, factor and the gradients that clipping leaves are those of eager.
CheckResult judge_clipping(JudgeContext& context);

}  // namespace cgconform::suites::checks
