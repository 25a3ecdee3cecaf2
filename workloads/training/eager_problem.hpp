#pragma once

#include "matrix/cell.hpp"

namespace cgconform::workloads {

/// The cell without whatever only its graphs depend on: no implementation, no scope, no pools.
/// Every eager leg is run on it, so that cells with equal problems have equal eager legs. The steps
/// are those that the cell's own plan asks for. Of a cell with graphs it delays no weight
/// gradients.
matrix::Cell eager_problem(const matrix::Cell& cell);

/// True where the legs of both train the same; their places in a matrix do not matter.
bool is_same_problem(const matrix::Cell& a, const matrix::Cell& b);

}  // namespace cgconform::workloads
