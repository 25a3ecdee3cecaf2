#pragma once

#include <map>
#include <string>

#include "matrix/cell.hpp"

namespace cgconform::matrix {

/// Variables of a process, by name.
using ProcessEnvironment = std::map<std::string, std::string>;

/// What the platform settings of a cell demand of its process; cells with equal answers can share a
/// worker.
ProcessEnvironment cell_environment(const Cell& cell);

/// `env NAME=VALUE ... `, with the blank at its end, to stand before a command; empty for nothing.
std::string environment_prefix(const ProcessEnvironment& environment);

}  // namespace cgconform::matrix
