#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "matrix/field_table.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {

/// A JSON scalar or list of scalars as a `FieldValue`; it borrows from the JSON value, which must
/// outlive it. Throws InputError for objects and nested lists.
class JsonFieldValue {
 public:
  explicit JsonFieldValue(const nlohmann::json& json);
  const FieldValue& value() const { return value_; }

  JsonFieldValue(const JsonFieldValue&) = delete;
  JsonFieldValue& operator=(const JsonFieldValue&) = delete;
  JsonFieldValue(JsonFieldValue&&) = delete;
  JsonFieldValue& operator=(JsonFieldValue&&) = delete;
  ~JsonFieldValue() = default;

 private:
  std::vector<FieldScalar> items_;
  FieldValue value_;
};

/// Sets `field` of `config` from JSON; throws InputError naming the field.
void set_field(TrainingConfig& config, FieldIndex field, const nlohmann::json& json);

/// Compiles `name = json` once, for millions of applications. Throws InputError.
FieldAssignment compile_assignment(std::string_view name, const nlohmann::json& json);

/// Reads a flat JSON object in Megatron's field names; absent fields keep their defaults.
/// Throws InputError for an unknown field or value, naming the nearest known one.
TrainingConfig training_config_from_json(const nlohmann::json& json);

/// Every field by name. `training_config_from_json` reads back an equal configuration.
nlohmann::json training_config_to_json(const TrainingConfig& config);

/// The fields of `config` that differ from `base`, by name.
nlohmann::json training_config_difference(const TrainingConfig& config, const TrainingConfig& base);

}  // namespace cgconform::matrix
