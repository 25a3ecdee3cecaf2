#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"

namespace cgconform::suites {

/// The parts of a layer in order of execution, as graph scopes name them; of a layer with experts,
/// those of a dense one in its place, or `moe` in a hybrid model. Read from the pattern of the
/// configuration, without the code that builds the model.
std::vector<std::string_view> parts_of_layer(const matrix::Cell& cell, std::int32_t layer);

/// True where at least one layer of the model has the part.
bool model_has_part(const matrix::Cell& cell, std::string_view part);

/// True where the scope names the part, or whole layers.
bool scope_names_part(const matrix::Cell& cell, std::string_view part);

}  // namespace cgconform::suites
