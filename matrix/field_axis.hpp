#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "matrix/axis.hpp"

namespace cgconform::matrix {

/// Fields of TrainingConfig as axes under their own names; those that a row of the axis table sets
/// alone are reached through that row.
bool is_field(std::string_view name);
std::vector<std::string_view> field_names();
/// Megatron's own name of a field also known under others; empty where there is no such field.
std::string_view canonical_field_name(std::string_view name);

/// The value of a field given as JSON; throws InputError with the field and the reason.
AxisValue field_value(std::string_view field, const nlohmann::json& json);

/// Token of the field in a configuration without settings.
std::string field_default_token(std::string_view field);

}  // namespace cgconform::matrix
