#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "matrix/axis_builder.hpp"
#include "matrix/covering_array.hpp"
#include "matrix/error.hpp"
#include "matrix/json_document.hpp"
#include "matrix/matrix.hpp"
#include "matrix/nearest_name.hpp"
#include "matrix/scale.hpp"

namespace cgconform::matrix {
namespace {

constexpr std::array<std::string_view, 10> known_keys{
    "name",    "description", "axes",     "defaults", "tiny",
    "include", "exclude",     "strategy", "limits",   "checks"};
constexpr std::array<std::string_view, 2> known_limits{"max_ranks", "deadline_seconds"};
constexpr std::array<std::string_view, 3> known_strategies{"exhaustive", "pairwise", "t-wise:N"};

constexpr const char* scale_axis = "scale";

/// Value of an axis that the matrix does not list while its defaults set fields of it one by one.
constexpr std::string_view mixed_token = "mixed";

/// Reads one matrix; holds what the parts of a file share.
class MatrixReader {
 public:
  /// An empty `scale` leaves the matrix as it is written.
  MatrixReader(std::string_view text, std::string_view source, std::string_view scale)
      : source_(source),
        builder_(source),
        document_(parse_json_document(text, source)),
        scale_(scale) {
    matrix_.source = std::string(source);
  }

  Matrix read() {
    if (!document_.is_object()) builder_.fail("top level", "expected an object");
    choose_scale();
    for (const auto& item : document_.items()) {
      if (std::find(known_keys.begin(), known_keys.end(), item.key()) == known_keys.end()) {
        builder_.fail("top level", fmt::format("unknown key '{}'{}", item.key(),
                                               nearest_hint(item.key(), known_keys)));
      }
    }
    matrix_.name = text("name");
    if (!is_token(matrix_.name)) {
      builder_.fail("name", "a name of letters, digits and _ . + : - is needed");
    }
    matrix_.description = text("description");
    read_axes();
    matrix_.include = expressions("include");
    matrix_.exclude = expressions("exclude");
    read_strategy();
    read_limits();
    read_checks();
    return std::move(matrix_);
  }

 private:
  std::string text(const std::string& key) const {
    if (!document_.contains(key)) return {};
    if (!document_[key].is_string()) builder_.fail(key, "expected a text");
    return document_[key].get<std::string>();
  }

  const nlohmann::json& object(const std::string& key) const {
    static const nlohmann::json empty = nlohmann::json::object();
    if (!document_.contains(key)) return empty;
    if (!document_[key].is_object()) builder_.fail(key, "expected an object");
    return document_[key];
  }

  /// The scale of the command line, as if the matrix had it as its only one.
  void choose_scale() {
    if (scale_.empty()) return;
    for (const char* key : {"axes", "defaults"}) {
      if (!object(key).contains(scale_axis)) continue;
      builder_.fail(fmt::format("{}.{}", key, scale_axis),
                    "the matrix chooses its scale itself; leave --scale out");
    }
    document_["axes"][scale_axis] = nlohmann::json::array({scale_});
  }

  /// The fields that the matrix sets by name, at any scale.
  std::set<std::string, std::less<>> given_fields() const {
    std::set<std::string, std::less<>> given;
    const auto add = [&](const std::string& name) {
      const AxisDefinition* row = find_axis_definition(name);
      if (row != nullptr) given.insert(row->fields.begin(), row->fields.end());
      given.emplace(canonical_axis_name(name));
    };
    for (const auto& [name, value] : object("defaults").items()) add(name);
    for (const auto& [name, values] : object("axes").items()) {
      add(name);
      if (!values.is_object()) continue;
      for (const auto& [token, assignments] : values.items()) {
        if (!assignments.is_object()) continue;
        for (const auto& [field, value] : assignments.items()) add(field);
      }
    }
    return given;
  }

  /// A scale gives way to what the matrix sets by name.
  void give_way(AxisValue& value) const {
    const Scale* scale = find_scale(value.token);
    if (scale == nullptr) return;
    value.apply = [scale, given = given_fields()](Cell& cell) { apply_scale(cell, *scale, given); };
  }

  void read_axes() {
    std::map<std::string, Axis> listed;
    for (const auto& [name, values] : object("axes").items()) {
      Axis axis = builder_.build(name, values);
      if (axis.name == scale_axis) {
        for (AxisValue& value : axis.values) give_way(value);
      }
      const std::string canonical = axis.name;
      if (!listed.emplace(canonical, std::move(axis)).second) {
        builder_.fail(fmt::format("axes.{}", name),
                      fmt::format("the axis '{}' is listed under two names", canonical));
      }
    }
    std::map<std::string, AxisValue> defaults = read_defaults(listed);
    std::vector<Axis> axes;
    for (const AxisDefinition& definition : axis_table()) {
      const std::string name(definition.name);
      auto found = listed.extract(name);
      Axis axis = found ? std::move(found.mapped()) : AxisBuilder::fixed(definition);
      if (found) apply_alone(axis);
      if (const auto value = defaults.find(name); value != defaults.end()) {
        axis.default_token = value->second.token;
        if (!found) axis.values = {value->second};
      } else if (!found && sets_any(axis.fields, defaults)) {
        axis.values = {{std::string(mixed_token), std::nullopt, [](Cell&) {}}};
        axis.default_token = mixed_token;
      }
      axes.push_back(std::move(axis));
    }
    const auto take = [&](bool fields) {
      for (auto& [name, axis] : listed) {
        if (canonical_axis_name(name).empty() == fields) continue;
        if (const auto value = defaults.find(name); value != defaults.end()) {
          axis.default_token = value->second.token;
        }
        apply_alone(axis);
        axes.push_back(std::move(axis));
      }
    };
    take(true);
    take(false);
    refuse_overlaps(axes, defaults);
    for (Axis& axis : axes) {
      const std::int32_t index = axis.find(axis.default_token);
      axis.default_index = index < 0 ? Axis::no_index : static_cast<std::uint32_t>(index);
    }
    matrix_.axes = std::make_shared<const std::vector<Axis>>(std::move(axes));
  }

  static bool sets_any(const std::vector<std::string>& fields,
                       const std::map<std::string, AxisValue>& defaults) {
    return std::any_of(fields.begin(), fields.end(), [&](const std::string& field) {
      return defaults.find(field) != defaults.end();
    });
  }

  /// An axis with one value sets it in every cell, so once in the base cell.
  void apply_alone(const Axis& axis) {
    if (axis.values.size() == 1) axis.values.front().apply(matrix_.base);
  }

  /// The default of each table axis, field and composite axis named under `defaults`; those of the
  /// first two kinds are applied to the base cell in the order of the table, then by field name.
  std::map<std::string, AxisValue> read_defaults(const std::map<std::string, Axis>& listed) {
    std::map<std::string, AxisValue> defaults;
    read_defaults_of("tiny", listed, defaults);
    read_defaults_of("defaults", listed, defaults);
    for (const AxisDefinition& definition : axis_table()) {
      if (const auto found = defaults.find(std::string(definition.name)); found != defaults.end()) {
        found->second.apply(matrix_.base);
      }
    }
    for (const auto& [name, value] : defaults) {
      if (find_axis_definition(name) == nullptr && !canonical_axis_name(name).empty()) {
        value.apply(matrix_.base);
      }
    }
    return defaults;
  }

  void read_defaults_of(const std::string& key, const std::map<std::string, Axis>& listed,
                        std::map<std::string, AxisValue>& defaults) const {
    for (const auto& [name, json] : object(key).items()) {
      const std::string place = fmt::format("{}.{}", key, name);
      const auto composite = listed.find(name);
      AxisValue value;
      std::string canonical(canonical_axis_name(name));
      if (canonical.empty() && composite != listed.end()) {
        canonical = name;
        const std::string token = json.is_string() ? json.get<std::string>() : json.dump();
        const std::int32_t index = composite->second.find(token);
        if (index < 0) {
          builder_.fail(place, fmt::format("axis '{}' has no value '{}'", name, token));
        }
        value = composite->second.values[static_cast<std::size_t>(index)];
      } else {
        value = builder_.value(name, json, place);
        if (canonical == scale_axis) give_way(value);
      }
      if (!defaults.emplace(canonical, std::move(value)).second) {
        builder_.fail(place, fmt::format("the default of '{}' is given twice", canonical));
      }
    }
  }

  /// Two axes that set one field would make cells whose id lies about their configuration.
  void refuse_overlaps(const std::vector<Axis>& axes,
                       const std::map<std::string, AxisValue>& defaults) const {
    std::map<std::string, std::string> setter;
    for (const Axis& axis : axes) {
      const bool fixed = axis.values.size() == 1 && !object("axes").contains(axis.name) &&
                         defaults.find(axis.name) == defaults.end();
      if (fixed) continue;
      for (const std::string& field : axis.fields) {
        const auto [other, inserted] = setter.emplace(field, axis.name);
        if (!inserted && other->second != axis.name) {
          builder_.fail(fmt::format("axes.{}", axis.name),
                        fmt::format("'{}' and '{}' both set the field {}; keep one, or make one "
                                    "composite axis of them",
                                    other->second, axis.name, field));
        }
      }
    }
    for (const auto& [name, value] : defaults) {
      const auto other = setter.find(name);
      if (other != setter.end() && other->second != name) {
        builder_.fail(
            fmt::format("defaults.{}", name),
            fmt::format("the axis '{}' sets this field too; drop the default", other->second));
      }
    }
  }

  std::vector<Filter> expressions(const std::string& key) const {
    std::vector<Filter> filters;
    if (!document_.contains(key)) return filters;
    const nlohmann::json& list = document_[key];
    if (!list.is_array()) builder_.fail(key, "expected a list of expressions");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string place = fmt::format("{}[{}]", key, i);
      if (!list[i].is_string()) builder_.fail(place, "expected an expression as text");
      filters.push_back(Filter::compile(list[i].get<std::string>(), matrix_.axes,
                                        fmt::format("{}, {}", source_, place)));
    }
    return filters;
  }

  void read_strategy() {
    const std::string name = document_.contains("strategy") ? text("strategy") : "exhaustive";
    if (name == "exhaustive") return;
    if (name == "pairwise") {
      matrix_.strategy.kind = Strategy::Kind::t_wise;
      return;
    }
    if (constexpr std::string_view prefix = "t-wise:"; name.starts_with(prefix)) {
      const std::string width = name.substr(prefix.size());
      if (width.size() != 1 || width[0] < '2' || width[0] > '0' + widest_tuples) {
        builder_.fail("strategy", fmt::format("'{}': expected t-wise:N with N from 2 to {}", name,
                                              widest_tuples));
      }
      matrix_.strategy = {Strategy::Kind::t_wise, width[0] - '0'};
      return;
    }
    builder_.fail("strategy", fmt::format("unknown strategy '{}'{}", name,
                                          nearest_hint(name, known_strategies)));
  }

  void read_limits() {
    for (const auto& [name, json] : object("limits").items()) {
      const std::string place = fmt::format("limits.{}", name);
      if (std::find(known_limits.begin(), known_limits.end(), name) == known_limits.end()) {
        builder_.fail(place,
                      fmt::format("unknown limit '{}'{}", name, nearest_hint(name, known_limits)));
      }
      const bool positive =
          json.is_number_unsigned() && json.get<std::uint64_t>() >= 1 &&
          json.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int32_t>::max()};
      if (!positive) builder_.fail(place, "expected a whole number of at least 1");
      (name == "max_ranks" ? matrix_.limits.max_ranks : matrix_.limits.deadline_seconds) =
          json.get<std::int32_t>();
    }
  }

  void read_checks() const {
    if (!document_.contains("checks") || document_["checks"].empty()) return;
    builder_.fail("checks", "a choice of checks is not built yet; leave it out, all checks run");
  }

  std::string source_;
  AxisBuilder builder_;
  nlohmann::json document_;
  std::string scale_;
  Matrix matrix_;
};

}  // namespace

Matrix read_matrix(std::string_view text, std::string_view source, std::string_view scale) {
  return MatrixReader(text, source, scale).read();
}

Matrix load_matrix(const std::string& name_or_path, std::string_view scale) {
  const std::vector<BuiltinMatrix> builtin = builtin_matrices();
  std::vector<std::string_view> names;
  for (const BuiltinMatrix& matrix : builtin) {
    if (matrix.name == name_or_path) {
      Matrix result =
          read_matrix(matrix.text, fmt::format("built-in matrix {}", matrix.name), scale);
      return result;
    }
    names.push_back(matrix.name);
  }
  std::ifstream file(name_or_path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(name_or_path, error)) {
    throw InputError(fmt::format("--matrix {}: neither a built-in matrix nor a readable file{}",
                                 name_or_path, nearest_hint(name_or_path, names)));
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return read_matrix(text, name_or_path, scale);
}

}  // namespace cgconform::matrix
