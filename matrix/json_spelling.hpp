#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace cgconform::matrix {

/// The token under which a value given as JSON is known: `["attn","mlp"]` is `attn+mlp`, null is
/// `unset`, an empty list `none`. Empty where JSON of that shape names no value.
std::string json_spelling(const nlohmann::json& json);

}  // namespace cgconform::matrix
