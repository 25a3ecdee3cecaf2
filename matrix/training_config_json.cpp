#include "matrix/training_config_json.hpp"

#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "matrix/error.hpp"

namespace cgconform::matrix {

namespace {

FieldScalar scalar_from(const nlohmann::json& json) {
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return {};
    case nlohmann::json::value_t::boolean:
      return FieldScalar::of_boolean(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return FieldScalar::of_integer(json.get<std::int64_t>());
    case nlohmann::json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      const auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      return FieldScalar::of_integer(static_cast<std::int64_t>(std::min(number, largest)));
    }
    case nlohmann::json::value_t::number_float:
      return FieldScalar::of_real(json.get<double>());
    case nlohmann::json::value_t::string:
      return FieldScalar::of_text(json.get_ref<const std::string&>());
    default:
      throw InputError("a value must be a scalar or a flat list of scalars");
  }
}

}  // namespace

JsonFieldValue::JsonFieldValue(const nlohmann::json& json) {
  if (!json.is_array()) {
    value_.scalar = scalar_from(json);
    return;
  }
  items_.reserve(json.size());
  for (const nlohmann::json& item : json) items_.push_back(scalar_from(item));
  value_.is_list = true;
  value_.items = items_;
}

void set_field(TrainingConfig& config, FieldIndex field, const nlohmann::json& json) {
  set_field(config, field, JsonFieldValue(json).value());
}

FieldAssignment compile_assignment(std::string_view name, const nlohmann::json& json) {
  return {require_field(name), JsonFieldValue(json).value()};
}

TrainingConfig training_config_from_json(const nlohmann::json& json) {
  if (!json.is_object()) throw InputError("a configuration must be a JSON object");
  TrainingConfig config;
  for (const auto& [name, value] : json.items()) set_field(config, require_field(name), value);
  return config;
}

nlohmann::json training_config_to_json(const TrainingConfig& config) {
  nlohmann::json json = nlohmann::json::object();
  for (const Field& field : field_table()) json[std::string(field.name)] = field.write(config);
  return json;
}

nlohmann::json training_config_difference(const TrainingConfig& config,
                                          const TrainingConfig& base) {
  nlohmann::json json = nlohmann::json::object();
  for (const Field& field : field_table()) {
    if (!field.equal(config, base)) json[std::string(field.name)] = field.write(config);
  }
  return json;
}

}  // namespace cgconform::matrix
