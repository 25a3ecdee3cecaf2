#pragma once

#include <string_view>
#include <vector>

#include "matrix/cell.hpp"

namespace cgconform::matrix {

/// A variable of the process that runs a cell.
struct EnvironmentVariable {
  std::string_view name;
  std::string_view value;
  friend bool operator==(const EnvironmentVariable&, const EnvironmentVariable&) = default;
};

/// What the platform settings of a cell demand of its process, in a fixed order; cells with equal
/// answers can share a worker.
std::vector<EnvironmentVariable> cell_environment(const Cell& cell);

}  // namespace cgconform::matrix
