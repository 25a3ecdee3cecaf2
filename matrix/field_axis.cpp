#include "matrix/field_axis.hpp"

#include <nlohmann/json.hpp>

#include "matrix/field_table.hpp"
#include "matrix/json_spelling.hpp"
#include "matrix/training_config_json.hpp"

namespace cgconform::matrix {

bool is_field(std::string_view name) {
  return find_field(name).has_value();
}

std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  for (const Field& field : field_table()) names.emplace_back(field.name);
  return names;
}

std::string_view canonical_field_name(std::string_view name) {
  const auto index = find_field(name);
  return index ? field_at(*index).name : std::string_view();
}

AxisValue field_value(std::string_view field, const nlohmann::json& json) {
  const FieldAssignment assignment = compile_assignment(field, json);
  TrainingConfig config;
  assignment.apply(config);
  const nlohmann::json written = field_at(assignment.field()).write(config);
  AxisValue value;
  value.token = json_spelling(written);
  if (written.is_number()) value.number = written.get<double>();
  value.apply = [assignment](Cell& cell) { assignment.apply(cell.config); };
  return value;
}

std::string field_default_token(std::string_view field) {
  const auto index = find_field(field);
  return index ? json_spelling(field_at(*index).write(TrainingConfig{})) : std::string();
}

}  // namespace cgconform::matrix
