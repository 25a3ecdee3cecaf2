#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "matrix/axis.hpp"

namespace cgconform::matrix {

/// Makes the axes of one matrix from the JSON of its `axes` and `defaults`. Throws InputError whose
/// message begins with the source and the place, such as `smoke.json, axes.pp[1]`.
class AxisBuilder {
 public:
  explicit AxisBuilder(std::string_view source) : source_(source) {}

  /// The axis `name` (a row of the table, a field of TrainingConfig, or a composite axis given as
  /// an object from value to assignments) with the listed values.
  Axis build(std::string_view name, const nlohmann::json& values) const;

  /// One value of the table axis or field `name`.
  AxisValue value(std::string_view name, const nlohmann::json& json, std::string_view place) const;

  /// The axis of a table row or field that the matrix does not list: its one value is the default.
  static Axis fixed(const AxisDefinition& definition);

  /// Throws InputError that names the nearest axis or field.
  [[noreturn]] void fail_unknown_axis(std::string_view name, std::string_view place) const;
  [[noreturn]] void fail(std::string_view place, std::string_view reason) const;

 private:
  Axis shell(std::string_view name, std::string_view place) const;
  std::vector<nlohmann::json> listed(std::string_view name, const nlohmann::json& values) const;
  Axis composite(std::string_view name, const nlohmann::json& values) const;

  std::string source_;
};

/// The canonical name of a table axis or field, or empty where `name` is neither.
std::string_view canonical_axis_name(std::string_view name);

}  // namespace cgconform::matrix
