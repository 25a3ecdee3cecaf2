#include "matrix/json_spelling.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cgconform::matrix {

std::string json_spelling(const nlohmann::json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return "unset";
  if (json.is_boolean()) return json.get<bool>() ? "true" : "false";
  if (json.is_number_integer()) return json.dump();
  if (json.is_number_float()) return fmt::format("{}", json.get<double>());
  if (!json.is_array()) return {};
  if (json.empty()) return "none";
  std::string joined;
  for (const nlohmann::json& item : json) {
    const std::string part = item.is_structured() ? std::string() : json_spelling(item);
    if (part.empty()) return {};
    if (!joined.empty()) joined += '+';
    joined += part;
  }
  return joined;
}

}  // namespace cgconform::matrix
