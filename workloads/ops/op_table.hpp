#pragma once

#include <span>

#include "workloads/ops/op.hpp"

namespace cgconform::workloads {

/// Every declared op, for documents and tests.
std::span<const OpDeclaration* const> op_table();

}  // namespace cgconform::workloads
