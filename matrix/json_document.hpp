#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace cgconform::matrix {

/// Parses JSON text strictly: no key twice in one object, at most 64 levels deep. Throws InputError
/// with `source`, line, column and reason.
nlohmann::json parse_json_document(std::string_view text, std::string_view source);

}  // namespace cgconform::matrix
