#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"
#include "suites/check.hpp"

namespace cgconform::suites {

/// Which checks judge a cell, and the legs they need, each once.
struct CellPlan {
  std::vector<const CheckDefinition*> checks;  ///< in the order of the check table
  std::vector<workloads::LegRequest> legs;     ///< in the order they are run
};

/// True where the cell's graph leg would capture something: its implementation is not `none`.
bool is_graph_cell(const matrix::Cell& cell);

/// The checks of `table` with subject `cell` that apply, and the union of their legs.
CellPlan plan_cell(const matrix::Cell& cell, std::span<const CheckDefinition> table);

/// Hash of cell id, seed, checks and legs, 16 hexadecimal digits: ranks of one gang that disagree
/// on it must not start.
std::string plan_digest(const CellPlan& plan, std::string_view cell_id, std::uint64_t seed);

}  // namespace cgconform::suites
