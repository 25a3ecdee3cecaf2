#pragma once

#include <nlohmann/json_fwd.hpp>

#include "matrix/cell.hpp"

namespace cgconform::harness {

/// A cell as it travels to a worker: every field that differs from its default. Reading back gives
/// an equal cell.
nlohmann::json cell_to_json(const matrix::Cell& cell);
matrix::Cell cell_from_json(const nlohmann::json& json);

}  // namespace cgconform::harness
