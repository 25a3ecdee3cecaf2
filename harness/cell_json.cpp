#include "harness/cell_json.hpp"

#include <cstdint>
#include <optional>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "matrix/training_config_json.hpp"

namespace cgconform::harness {
namespace {

using nlohmann::json;

json version_to_json(const matrix::Version& version) {
  return json::array({version.major_number, version.minor_number, version.patch_number});
}

/// Calls `visit(name, member)` for every member of the shape, the platform and the cell itself; the
/// one list of what travels beyond the configuration.
template <typename AnyCell, typename Visit>
void for_each_member(AnyCell& cell, const Visit& visit) {
  visit("index", cell.index);
  visit("model_kind", cell.model_kind);
  auto& shape = cell.shape;
  visit("vocab_size", shape.vocab_size);
  visit("ffn_hidden_size", shape.ffn_hidden_size);
  visit("steps", shape.steps);
  visit("eval_interval", shape.eval_interval);
  visit("eval_iters", shape.eval_iters);
  visit("optimizer", shape.optimizer);
  visit("bucket_size", shape.bucket_size);
  visit("graphed_layers", shape.graphed_layers);
  visit("image_tokens", shape.image_tokens);
  visit("capture_form", shape.capture_form);
  visit("clip_grad", shape.clip_grad);
  visit("last_batch", shape.last_batch);
  auto& platform = cell.platform;
  visit("expandable_segments", platform.expandable_segments);
  visit("expandable_segments_as_tested", platform.expandable_segments_as_tested);
  visit("stream_ordered_segments", platform.stream_ordered_segments);
  visit("nccl_graph_register", platform.nccl_graph_register);
  visit("nccl_graph_register_misspelt", platform.nccl_graph_register_misspelt);
  visit("cuda_device_max_connections", platform.cuda_device_max_connections);
  visit("cuda_graphs_use_node_priority", platform.cuda_graphs_use_node_priority);
  visit("nvte_cpu_offload_v1", platform.nvte_cpu_offload_v1);
  visit("graph_pool", platform.graph_pool);
  visit("compute_capability", platform.compute_capability);
  visit("transformer_engine", platform.transformer_engine);
  visit("torch", platform.torch);
  visit("nccl", platform.nccl);
}

template <typename T>
json value_to_json(const T& value) {
  if constexpr (std::is_same_v<T, matrix::Version>) {
    return version_to_json(value);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<std::underlying_type_t<T>>(value);
  } else {
    return value;
  }
}

template <typename T>
json value_to_json(const std::optional<T>& value) {
  return value ? value_to_json(*value) : json(nullptr);
}

template <typename T>
void value_from_json(const json& value, T& target) {
  if constexpr (std::is_same_v<T, matrix::Version>) {
    target = {value.at(0).get<std::int32_t>(), value.at(1).get<std::int32_t>(),
              value.at(2).get<std::int32_t>()};
  } else if constexpr (std::is_enum_v<T>) {
    target = static_cast<T>(value.get<std::underlying_type_t<T>>());
  } else {
    target = value.get<T>();
  }
}

template <typename T>
void value_from_json(const json& value, std::optional<T>& target) {
  if (value.is_null()) {
    target.reset();
  } else {
    value_from_json(value, target.emplace());
  }
}

}  // namespace

json cell_to_json(const matrix::Cell& cell) {
  json object = {
      {"config", matrix::training_config_difference(cell.config, matrix::TrainingConfig{})}};
  for_each_member(
      cell, [&](const char* name, const auto& member) { object[name] = value_to_json(member); });
  return object;
}

matrix::Cell cell_from_json(const json& object) {
  matrix::Cell cell;
  cell.config = matrix::training_config_from_json(object.at("config"));
  for_each_member(
      cell, [&](const char* name, auto& member) { value_from_json(object.at(name), member); });
  return cell;
}

}  // namespace cgconform::harness
