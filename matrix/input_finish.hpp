#pragma once

#include "matrix/input.hpp"

namespace cgconform::matrix {

/// Derives what an input implies once it is complete: whether the implementation was given, and the
/// number of micro-batches where the batch sizes tell it.
void finish_input(CheckInput& input);

/// Records the order in which a scope names its items.
void note_scope_order(ScopeOrder& order, const FieldValue& value);

}  // namespace cgconform::matrix
