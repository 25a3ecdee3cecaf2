#include "matrix/field_axis.hpp"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "matrix/error.hpp"
#include "matrix/field_table.hpp"
#include "matrix/json_spelling.hpp"
#include "matrix/training_config_json.hpp"

namespace cgconform::matrix {
namespace {

/// A field that the workload itself is built from: values outside `[minimum, below)` make no model.
struct FieldBounds {
  std::string_view field;
  double minimum = 1.0;
  double below = 2147483648.0;
  std::string_view expected;
};

constexpr std::string_view at_least_one = "a whole number of at least 1";
constexpr std::string_view power = "a whole number from 0 to 63";
constexpr std::string_view rate = "a rate from 0 to below 1";
constexpr std::array field_bounds{
    FieldBounds{.field = "num_layers", .expected = at_least_one},
    FieldBounds{.field = "hidden_size", .expected = at_least_one},
    FieldBounds{.field = "num_attention_heads", .expected = at_least_one},
    FieldBounds{.field = "seq_length", .expected = at_least_one},
    FieldBounds{.field = "micro_batch_size", .expected = at_least_one},
    FieldBounds{.field = "fp8_amax_history_len", .expected = at_least_one},
    FieldBounds{.field = "fp8_margin", .minimum = 0.0, .below = 64.0, .expected = power},
    FieldBounds{.field = "attention_dropout", .minimum = 0.0, .below = 1.0, .expected = rate},
    FieldBounds{.field = "hidden_dropout", .minimum = 0.0, .below = 1.0, .expected = rate},
};

void require_buildable(std::string_view field, const nlohmann::json& written) {
  for (const FieldBounds& bounds : field_bounds) {
    if (bounds.field != field) continue;
    const auto number = written.get<double>();
    if (number >= bounds.minimum && number < bounds.below) return;
    throw InputError(fmt::format("{}: {} is given where {} is expected", field, written.dump(),
                                 bounds.expected));
  }
}

}  // namespace

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
  const Field& row = field_at(assignment.field());
  const nlohmann::json written = row.write(config);
  require_buildable(row.name, written);
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
