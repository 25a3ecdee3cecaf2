#pragma once

#include "suites/check.hpp"

/// Parameters that replicas gather beside the forward.
namespace cgconform::suites::checks {

/// Cells whose implementation captures and whose replicas gather parameters bucket by bucket while
/// the forward runs.
bool graph_cells_that_gather(const matrix::Cell& cell);

/// COM-30: the buckets hold each parameter of the rank's stage once. In each schedule call after
/// the first step, validation included, every bucket is gathered once, before a layer reads it;
/// graphs of iterations hold the gather of every bucket, graphs of layers hold none. All tensors
/// equal eager. What is due follows from the cell, without the code that gathers.
CheckResult judge_parameter_gathers(JudgeContext& context);

}  // namespace cgconform::suites::checks
