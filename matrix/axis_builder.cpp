#include "matrix/axis_builder.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "matrix/error.hpp"
#include "matrix/field_axis.hpp"
#include "matrix/json_spelling.hpp"
#include "matrix/nearest_name.hpp"

namespace cgconform::matrix {
namespace {

std::vector<std::string_view> all_axis_names() {
  std::vector<std::string_view> names;
  for (const AxisDefinition& row : axis_table()) {
    names.emplace_back(row.name);
    names.insert(names.end(), row.aliases.begin(), row.aliases.end());
  }
  const std::vector<std::string_view> fields = field_names();
  names.insert(names.end(), fields.begin(), fields.end());
  return names;
}

std::vector<std::string> owned(const std::vector<std::string_view>& names) {
  return {names.begin(), names.end()};
}

/// Every subset of `items` as a list, the smaller first.
std::vector<nlohmann::json> subsets(const nlohmann::json& items) {
  std::vector<nlohmann::json> lists;
  const auto count = static_cast<unsigned>(items.size());
  for (unsigned size = 0; size <= count; ++size) {
    for (unsigned mask = 0; mask < (1U << count); ++mask) {
      if (static_cast<unsigned>(std::popcount(mask)) != size) continue;
      nlohmann::json list = nlohmann::json::array();
      for (unsigned i = 0; i < count; ++i) {
        if ((mask >> i & 1U) != 0) list.push_back(items[i]);
      }
      lists.push_back(std::move(list));
    }
  }
  return lists;
}

}  // namespace

std::string_view canonical_axis_name(std::string_view name) {
  if (const AxisDefinition* definition = find_axis_definition(name)) return definition->name;
  return canonical_field_name(name);
}

void AxisBuilder::fail(std::string_view place, std::string_view reason) const {
  throw InputError(fmt::format("{}, {}: {}", source_, place, reason));
}

void AxisBuilder::fail_unknown_axis(std::string_view name, std::string_view place) const {
  fail(place,
       fmt::format("unknown axis or field '{}'{}", name, nearest_hint(name, all_axis_names())));
}

AxisValue AxisBuilder::value(std::string_view name, const nlohmann::json& json,
                             std::string_view place) const {
  const AxisDefinition* definition = find_axis_definition(name);
  if (definition == nullptr) {
    if (!is_field(name)) fail_unknown_axis(name, place);
    try {
      return field_value(name, json);
    } catch (const InputError& error) {
      fail(place, error.what());
    }
  }
  const std::string token = json_spelling(json);
  std::optional<AxisValue> value = token.empty() ? std::nullopt : definition->parse(token);
  if (!value) {
    fail(place, fmt::format("axis '{}' has no value {}{}", definition->name, json.dump(),
                            definition->closed || !nearest_name(token, definition->examples).empty()
                                ? nearest_hint(token, definition->examples)
                                : fmt::format("; it takes values such as {}",
                                              fmt::join(definition->examples, ", "))));
  }
  return *std::move(value);
}

Axis AxisBuilder::shell(std::string_view name, std::string_view place) const {
  Axis axis;
  if (const AxisDefinition* definition = find_axis_definition(name)) {
    axis.name = std::string(definition->name);
    axis.aliases = owned(definition->aliases);
    axis.fields = owned(definition->fields);
    axis.known = owned(definition->examples);
    axis.default_token = std::string(definition->default_token);
    axis.always_in_id = definition->always_in_id;
    axis.canonical = [definition](std::string_view token) {
      const std::optional<AxisValue> value = definition->parse(token);
      return value ? value->token : std::string();
    };
    return axis;
  }
  if (!is_field(name)) fail_unknown_axis(name, place);
  axis.name = std::string(canonical_field_name(name));
  if (axis.name != name) axis.aliases = {std::string(name)};
  axis.fields = {axis.name};
  axis.default_token = field_default_token(name);
  return axis;
}

Axis AxisBuilder::fixed(const AxisDefinition& definition) {
  Axis axis = AxisBuilder("").shell(definition.name, "");
  axis.values.push_back(*definition.parse(definition.default_token));
  return axis;
}

std::vector<nlohmann::json> AxisBuilder::listed(std::string_view name,
                                                const nlohmann::json& values) const {
  std::vector<nlohmann::json> list;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const nlohmann::json& item = values[i];
    if (!item.is_object()) {
      list.push_back(item);
      continue;
    }
    const std::string place = fmt::format("axes.{}[{}]", name, i);
    if (item.size() != 1 || !item.contains("subsets_of") || !item["subsets_of"].is_array()) {
      fail(place, "an object in a list of values is {\"subsets_of\": [NAME, ...]}");
    }
    if (item["subsets_of"].size() > 12) fail(place, "subsets of more than 12 names");
    for (nlohmann::json& subset : subsets(item["subsets_of"])) list.push_back(std::move(subset));
  }
  return list;
}

Axis AxisBuilder::composite(std::string_view name, const nlohmann::json& values) const {
  Axis axis;
  axis.name = std::string(name);
  if (!is_token(name)) {
    fail(fmt::format("axes.{}", name), "a name consists of letters, digits and _ . + : -");
  }
  for (const auto& [token, assignments] : values.items()) {
    const std::string place = fmt::format("axes.{}.{}", name, token);
    if (!is_token(token)) fail(place, "a value's name consists of letters, digits and _ . + : -");
    if (!assignments.is_object()) fail(place, "expected an object from axis or field to value");
    std::vector<std::function<void(Cell&)>> steps;
    for (const auto& [target, json] : assignments.items()) {
      const std::string target_place = fmt::format("{}.{}", place, target);
      const Axis set = shell(target, target_place);
      for (const std::string& field : set.fields) {
        if (std::find(axis.fields.begin(), axis.fields.end(), field) == axis.fields.end()) {
          axis.fields.push_back(field);
        }
      }
      steps.push_back(value(target, json, target_place).apply);
    }
    axis.values.push_back({token, std::nullopt, [steps = std::move(steps)](Cell& cell) {
                             for (const auto& step : steps) step(cell);
                           }});
  }
  return axis;
}

Axis AxisBuilder::build(std::string_view name, const nlohmann::json& values) const {
  const std::string place = fmt::format("axes.{}", name);
  const bool known = !canonical_axis_name(name).empty();
  if (values.is_object() && !known) {
    Axis axis = composite(name, values);
    if (axis.values.empty()) fail(place, "the axis has no values; list one or more");
    return axis;
  }
  if (!known) fail_unknown_axis(name, place);
  if (!values.is_array()) fail(place, "expected a list of values");
  if (values.empty()) fail(place, "the axis has no values; list one or more");
  Axis axis = shell(name, place);
  const std::vector<nlohmann::json> items = listed(name, values);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item_place =
        items.size() == values.size() ? fmt::format("{}[{}]", place, i) : place;
    AxisValue next = value(name, items[i], item_place);
    if (axis.find(next.token) >= 0) {
      fail(item_place, fmt::format("the value '{}' stands twice; keep one", next.token));
    }
    axis.values.push_back(std::move(next));
  }
  return axis;
}

}  // namespace cgconform::matrix
