#pragma once

#include <utility>
#include <vector>

#include "matrix/cell.hpp"
#include "workloads/training/leg_request.hpp"

/// Which cells a check applies to and which legs it asks for, for the tables of checks.
namespace cgconform::suites::checks {

bool always(const matrix::Cell& cell);
/// Cells whose implementation captures.
bool graph_cells(const matrix::Cell& cell);
/// Cells whose implementation captures and whose model drops out somewhere.
bool graph_cells_with_dropout(const matrix::Cell& cell);
/// Cells whose implementation captures, on more than one rank.
bool graph_gangs(const matrix::Cell& cell);
/// Cells whose implementation captures and that validate between steps.
bool graph_cells_with_validation(const matrix::Cell& cell);
/// Cells that accumulate over three micro-batches or more.
bool cells_with_accumulation(const matrix::Cell& cell);

/// Pairs of legs to compare, expected first: graph with eager, plain and instrumented; for cells
/// without graphs eager with its own repeat.
std::vector<std::pair<workloads::LegRequest, workloads::LegRequest>> compared_pairs(
    const matrix::Cell& cell);
/// Every leg of `compared_pairs` and the eager repeat.
std::vector<workloads::LegRequest> compared_legs(const matrix::Cell& cell);
std::vector<workloads::LegRequest> instrumented_pair(const matrix::Cell& cell);
std::vector<workloads::LegRequest> graph_legs(const matrix::Cell& cell);
/// The plain graph leg and the timed one, which captures anew.
std::vector<workloads::LegRequest> repeated_graph_legs(const matrix::Cell& cell);

}  // namespace cgconform::suites::checks
