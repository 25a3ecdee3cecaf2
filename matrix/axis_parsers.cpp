#include "matrix/axis_parsers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "matrix/enum_names.hpp"
#include "matrix/scale.hpp"

namespace cgconform::matrix {
namespace {

/// Names of the enumerations that only cells know; the others are in enum_names.hpp.
constexpr std::array optimizer_names{
    EnumName{Optimizer::sgd, "sgd"},
    EnumName{Optimizer::adam, "adam"},
};
constexpr std::array graphed_names{
    EnumName{GraphedLayers::all, "all"},
    EnumName{GraphedLayers::first, "first"},
    EnumName{GraphedLayers::last, "last"},
    EnumName{GraphedLayers::odd, "odd"},
};
constexpr std::array form_names{
    EnumName{CaptureForm::configured, "configured"},
    EnumName{CaptureForm::whole_step, "whole_step"},
    EnumName{CaptureForm::partitioned, "partitioned"},
    EnumName{CaptureForm::callables, "callables"},
};
constexpr std::array last_batch_names{
    EnumName{LastBatch::full, "full"},
    EnumName{LastBatch::padded, "padded"},
    EnumName{LastBatch::eager, "eager"},
};

/// What `model` can be asked for. Hybrid models are of one kind, with experts or without.
struct NamedModel {
  std::string_view name;
  ModelKind kind = ModelKind::dense;
  bool experts = false;
  bool drop_and_pad = false;
};
constexpr std::array named_models{
    NamedModel{"dense", ModelKind::dense},
    NamedModel{"moe_dropless", ModelKind::moe_dropless, true},
    NamedModel{"moe_drop_and_pad", ModelKind::moe_drop_and_pad, true, true},
    NamedModel{"hybrid_mamba", ModelKind::hybrid_mamba},
    NamedModel{"hybrid_moe", ModelKind::hybrid_mamba, true, true},
};

template <typename Names>
auto find_name(const Names& names, std::string_view name) {
  const auto* const found = std::find_if(names.begin(), names.end(),
                                         [&](const auto& entry) { return entry.name == name; });
  return found == names.end() ? nullptr : found;
}

/// `a+b+c` as a set, in any order; nothing where a part is unknown or stands twice.
template <typename E>
std::optional<EnumSet<E>> set_of(std::string_view token) {
  EnumSet<E> set;
  while (true) {
    const std::size_t plus = token.find('+');
    const EnumName<E>* entry = find_enum<E>(token.substr(0, plus));
    if (entry == nullptr || set.contains(entry->value)) return std::nullopt;
    set.insert(entry->value);
    if (plus == std::string_view::npos) return set;
    token.remove_prefix(plus + 1);
  }
}

template <typename E>
std::string token_of(EnumSet<E> set) {
  std::string token;
  for (const EnumName<E>& entry : enum_names<E>()) {
    if (!set.contains(entry.value) || entry.name != enum_name(entry.value)) continue;
    if (!token.empty()) token += '+';
    token += entry.name;
  }
  return token;
}

/// Resets every field the kinds of model differ in, so that values apply over each other.
void set_dense(TrainingConfig& config) {
  const TrainingConfig plain;
  config.num_moe_experts.reset();
  config.moe_layer_freq = plain.moe_layer_freq;
  config.moe_aux_loss_coeff = plain.moe_aux_loss_coeff;
  config.moe_expert_capacity_factor.reset();
  config.moe_pad_expert_input_to_capacity = false;
  config.moe_token_dispatcher_type = plain.moe_token_dispatcher_type;
  config.moe_shared_expert_intermediate_size.reset();
  config.moe_grouped_gemm = false;
  config.is_hybrid_model = false;
}

/// Experts in every second layer, with a shared expert, so that every MoE scope and recompute
/// module has something to act on and the `mlp` scope keeps a dense layer.
void set_experts(TrainingConfig& config) {
  config.num_moe_experts = 4;
  config.moe_layer_freq.every = 2;
  config.moe_aux_loss_coeff = 0.01F;
  config.moe_token_dispatcher_type = MoeTokenDispatcherType::alltoall;
  config.moe_shared_expert_intermediate_size = 32;
  config.moe_grouped_gemm = true;
}

void set_model(Cell& cell, const NamedModel& model) {
  cell.model_kind = model.kind;
  set_dense(cell.config);
  if (model.experts) set_experts(cell.config);
  if (model.drop_and_pad) {
    cell.config.moe_expert_capacity_factor = 1.0F;
    cell.config.moe_pad_expert_input_to_capacity = true;
  }
  cell.config.is_hybrid_model = model.kind == ModelKind::hybrid_mamba;
  // The pattern of a hybrid model says which layers have experts.
  if (cell.config.is_hybrid_model) cell.config.moe_layer_freq = TrainingConfig{}.moe_layer_freq;
}

}  // namespace

std::optional<AxisValue> parse_impl(std::string_view token) {
  const EnumName<CudaGraphImpl>* entry =
      find_enum<CudaGraphImpl>(token == "te" ? std::string_view("transformer_engine") : token);
  if (entry == nullptr) return std::nullopt;
  return AxisValue{std::string(enum_name(entry->value)), std::nullopt,
                   [value = entry->value](Cell& cell) { cell.config.cuda_graph_impl = value; }};
}

std::optional<AxisValue> parse_scope(std::string_view token) {
  CudaGraphScope scope;
  if (token != "layer" && token != "none") {
    const auto modules = set_of<CudaGraphModule>(token);
    if (!modules) return std::nullopt;
    scope = *modules;
  }
  std::string name = scope.empty() ? "layer" : token_of(scope);
  return AxisValue{std::move(name), std::nullopt,
                   [scope](Cell& cell) { cell.config.cuda_graph_scope = scope; }};
}

std::optional<AxisValue> parse_model(std::string_view token) {
  const auto* const entry = find_name(named_models, token);
  if (entry == nullptr) return std::nullopt;
  return AxisValue{std::string(token), std::nullopt,
                   [model = *entry](Cell& cell) { set_model(cell, model); }};
}

std::optional<AxisValue> parse_attention(std::string_view token) {
  constexpr std::string_view grouped = "grouped:";
  std::optional<std::int32_t> groups;
  if (token.starts_with(grouped)) {
    const auto count = parse_integer(token.substr(grouped.size()));
    if (!count || *count < 1 || *count > INT32_MAX) return std::nullopt;
    groups = static_cast<std::int32_t>(*count);
  } else if (token != "heads" && token != "latent") {
    return std::nullopt;
  }
  const std::string name = groups ? fmt::format("{}{}", grouped, *groups) : std::string(token);
  return AxisValue{name, std::nullopt, [groups, latent = token == "latent"](Cell& cell) {
                     cell.config.num_query_groups = groups;
                     cell.config.multi_latent_attention = latent;
                   }};
}

std::optional<AxisValue> parse_pattern(std::string_view token) {
  // Ids and file names hold no asterisk.
  constexpr std::string_view letters = "MAFE";
  constexpr std::string_view fields = "M*-E";
  std::string text;
  for (const char letter : token) {
    const std::size_t place = letters.find(letter);
    if (place == std::string_view::npos) return std::nullopt;
    text += fields[place];
  }
  std::optional<HybridPattern> pattern = HybridPattern::parse(text);
  if (!pattern) return std::nullopt;
  if (text == "M*M-") pattern = HybridPattern{};
  return AxisValue{std::string(token), std::nullopt,
                   [value = *pattern](Cell& cell) { cell.config.hybrid_layer_pattern = value; }};
}

std::optional<AxisValue> parse_packing(std::string_view token) {
  const bool packed = token == "padded" || token == "unpadded";
  if (!packed && token != "none") return std::nullopt;
  return AxisValue{
      std::string(token), std::nullopt, [packed, padded = token == "padded"](Cell& cell) {
        cell.config.sequence_packing = packed ? SequencePacking::offline : SequencePacking::none;
        cell.config.pad_to_max_length = padded;
        cell.config.pad_cu_seqlens = padded;
      }};
}

std::optional<AxisValue> parse_recompute(std::string_view token) {
  const auto plan = [](std::string name, RecomputeGranularity granularity, RecomputeMethod method,
                       std::optional<std::int32_t> layers,
                       std::optional<RecomputeModules> modules) {
    return AxisValue{std::move(name), std::nullopt, [=](Cell& cell) {
                       cell.config.recompute_granularity = granularity;
                       cell.config.recompute_method = method;
                       cell.config.recompute_num_layers = layers;
                       cell.config.recompute_modules = modules;
                     }};
  };
  if (token == "none") {
    return plan("none", RecomputeGranularity::none, RecomputeMethod::none, std::nullopt,
                std::nullopt);
  }
  for (const auto& [prefix, method] :
       {std::pair{std::string_view("full-uniform"), RecomputeMethod::uniform},
        std::pair{std::string_view("full-block"), RecomputeMethod::block}}) {
    if (!token.starts_with(prefix)) continue;
    const std::string_view tail = token.substr(prefix.size());
    if (!tail.empty() && tail.front() != ':') return std::nullopt;
    const auto layers =
        tail.empty() ? std::optional<std::int64_t>(1) : parse_integer(tail.substr(1));
    if (!layers || *layers < 1 || *layers > INT32_MAX) return std::nullopt;
    return plan(*layers == 1 ? std::string(prefix) : fmt::format("{}:{}", prefix, *layers),
                RecomputeGranularity::full, method, static_cast<std::int32_t>(*layers),
                std::nullopt);
  }
  const auto modules = set_of<RecomputeModule>(token);
  if (!modules) return std::nullopt;
  return plan(token_of(*modules), RecomputeGranularity::selective, RecomputeMethod::none,
              std::nullopt, modules);
}

std::optional<AxisValue> parse_virtual_stages(std::string_view token) {
  const auto chunks = parse_integer(token);
  if (!chunks || *chunks < 1 || *chunks > INT32_MAX) return std::nullopt;
  const auto count = static_cast<std::int32_t>(*chunks);
  return AxisValue{std::to_string(count), static_cast<double>(count), [count](Cell& cell) {
                     cell.config.virtual_pipeline_model_parallel_size =
                         count == 1 ? std::nullopt : std::optional(count);
                   }};
}

std::optional<AxisValue> parse_dtype(std::string_view token) {
  const EnumName<ParamsDtype>* entry = find_enum<ParamsDtype>(token);
  if (entry == nullptr) return std::nullopt;
  return AxisValue{std::string(enum_name(entry->value)), std::nullopt,
                   [value = entry->value](Cell& cell) { cell.config.params_dtype = value; }};
}

std::optional<AxisValue> parse_optimizer(std::string_view token) {
  const auto* const entry = find_name(optimizer_names, token);
  if (entry == nullptr) return std::nullopt;
  return AxisValue{std::string(token), std::nullopt, [value = entry->value](Cell& cell) {
                     cell.shape.optimizer = value;
                     cell.config.optimizer =
                         value == Optimizer::sgd ? OptimizerName::sgd : OptimizerName::adam;
                   }};
}

std::optional<AxisValue> parse_graphed_layers(std::string_view token) {
  const auto* const entry = find_name(graphed_names, token);
  if (entry == nullptr) return std::nullopt;
  return AxisValue{std::string(token), std::nullopt,
                   [value = entry->value](Cell& cell) { cell.shape.graphed_layers = value; }};
}

std::optional<AxisValue> parse_scale(std::string_view token) {
  if (token == own_scale) return AxisValue{std::string(token), std::nullopt, [](Cell&) {}};
  const Scale* scale = find_scale(token);
  if (scale == nullptr) return std::nullopt;
  return AxisValue{std::string(token), std::nullopt,
                   [scale](Cell& cell) { apply_scale(cell, *scale, {}); }};
}

std::optional<AxisValue> parse_capture_form(std::string_view token) {
  const auto* const entry = find_name(form_names, token);
  if (entry == nullptr) return std::nullopt;
  return AxisValue{std::string(token), std::nullopt,
                   [value = entry->value](Cell& cell) { cell.shape.capture_form = value; }};
}

std::optional<AxisValue> parse_clip_grad(std::string_view token) {
  float norm = 0.0F;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), norm);
  if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
  if (!(norm >= 0.0F) || std::isinf(norm)) return std::nullopt;
  return AxisValue{fmt::format("{}", norm + 0.0F), static_cast<double>(norm),
                   [norm](Cell& cell) { cell.shape.clip_grad = norm; }};
}

std::optional<AxisValue> parse_last_batch(std::string_view token) {
  const auto* const entry = find_name(last_batch_names, token);
  if (entry == nullptr) return std::nullopt;
  return AxisValue{std::string(token), std::nullopt,
                   [value = entry->value](Cell& cell) { cell.shape.last_batch = value; }};
}

std::optional<AxisValue> parse_dropout(std::string_view token) {
  float rate = 0.0F;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), rate);
  if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
  if (!(rate >= 0.0F && rate < 1.0F)) return std::nullopt;
  return AxisValue{fmt::format("{}", rate + 0.0F), static_cast<double>(rate), [rate](Cell& cell) {
                     cell.config.attention_dropout = rate;
                     cell.config.hidden_dropout = rate;
                   }};
}

std::optional<AxisValue> parse_allocator(std::string_view token) {
  if (token != "plain" && token != "expandable" && token != "async") return std::nullopt;
  return AxisValue{std::string(token), std::nullopt,
                   [expandable = token == "expandable", async = token == "async"](Cell& cell) {
                     cell.platform.expandable_segments = expandable;
                     cell.platform.expandable_segments_as_tested = expandable;
                     cell.platform.stream_ordered_segments = async;
                   }};
}

std::optional<AxisValue> parse_graph_register(std::string_view token) {
  std::optional<bool> setting;
  if (token == "0" || token == "1") {
    setting = token == "1";
  } else if (token != "unset") {
    return std::nullopt;
  }
  return AxisValue{std::string(token), std::nullopt,
                   [setting](Cell& cell) { cell.platform.nccl_graph_register = setting; }};
}

std::optional<AxisValue> parse_pool(std::string_view token) {
  const EnumName<GraphPool>* entry = find_enum<GraphPool>(token);
  if (entry == nullptr) return std::nullopt;
  return AxisValue{std::string(token), std::nullopt,
                   [value = entry->value](Cell& cell) { cell.platform.graph_pool = value; }};
}

}  // namespace cgconform::matrix
