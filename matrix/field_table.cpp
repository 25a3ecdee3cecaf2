#include "matrix/field_table.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "matrix/enum_names.hpp"
#include "matrix/error.hpp"
#include "matrix/field_reader.hpp"
#include "matrix/nearest_name.hpp"
#include "matrix/quoted_word.hpp"

namespace cgconform::matrix {

namespace {

using Config = TrainingConfig;
using enum FieldHome;

// --- JSON of one value

nlohmann::json to_json_value(bool value) {
  return value;
}
nlohmann::json to_json_value(std::int32_t value) {
  return value;
}
nlohmann::json to_json_value(float value) {
  // The shortest decimal that reads back as the same float, so that 0.1F is written as 0.1.
  return nlohmann::json::parse(fmt::format("{}", value));
}

template <typename E>
requires std::is_enum_v<E> nlohmann::json to_json_value(E value) {
  return enum_name(value);
}

template <typename E>
nlohmann::json to_json_value(EnumSet<E> value) {
  nlohmann::json list = nlohmann::json::array();
  for (const EnumName<E>& entry : enum_names<E>()) {
    if (value.contains(entry.value)) list.push_back(entry.name);
  }
  return list;
}

nlohmann::json to_json_value(const MoeLayerFreq& value) {
  if (value.pattern_length == 0) return value.every;
  nlohmann::json list = nlohmann::json::array();
  for (std::int32_t layer = 0; layer < value.pattern_length; ++layer) {
    list.push_back(value.pattern_at(layer) ? 1 : 0);
  }
  return list;
}

nlohmann::json to_json_value(const HybridPattern& value) {
  std::string text;
  for (std::int32_t layer = 0; layer < value.length; ++layer) {
    text += HybridPattern::letters[static_cast<std::size_t>(value.at(layer))];
  }
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

template <typename T>
nlohmann::json to_json_value(const std::optional<T>& value) {
  return value ? to_json_value(*value) : nlohmann::json();
}

// --- The functions of one field, from its member

template <auto member>
struct Access {
  using Value = std::remove_reference_t<decltype(std::declval<Config&>().*member)>;
  static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= sizeof(FieldBytes));

  static void read(const FieldValue& value, Config& config) {
    if (value.is_null()) {
      config.*member = Config{}.*member;
    } else {
      read_field(value, config.*member);
    }
  }
  static nlohmann::json write(const Config& config) { return to_json_value(config.*member); }
  static void save(const Config& config, FieldBytes& bytes) {
    std::memcpy(bytes.data(), &(config.*member), sizeof(Value));
  }
  static void load(Config& config, const FieldBytes& bytes) {
    std::memcpy(&(config.*member), bytes.data(), sizeof(Value));
  }
  static bool equal(const Config& a, const Config& b) { return a.*member == b.*member; }
};

template <auto member>
Field field(std::string_view name, FieldHomes homes, std::string_view type,
            std::array<std::string_view, 2> aliases = {}) {
  using A = Access<member>;
  return {name, aliases, homes, type, A::read, A::write, A::save, A::load, A::equal};
}

/// Some fields hold a format name or numbers in Megatron; here only their presence matters.
template <auto member>
void read_presence(const FieldValue& value, Config& config) {
  const bool is_flag = !value.is_list && (value.scalar.kind == FieldScalar::Kind::boolean ||
                                          value.scalar.kind == FieldScalar::Kind::null);
  if (is_flag) {
    Access<member>::read(value, config);
  } else {
    config.*member = true;
  }
}

std::vector<Field> make_fields() {
  constexpr std::string_view boolean = "boolean";
  constexpr std::string_view integer = "integer";
  constexpr std::string_view real = "number";
  constexpr std::string_view word = "name";
  constexpr std::string_view words = "list of names";
  const FieldHomes in_model{model, arguments};
  const FieldHomes in_ddp{ddp, arguments};
  const FieldHomes in_overlap{model, comm_overlap, arguments};
  const FieldHomes in_precision{model, mixed_precision, arguments};

  std::vector<Field> fields{
      // CUDA graphs
      field<&Config::cuda_graph_impl>("cuda_graph_impl", in_model, word),
      field<&Config::cuda_graph_scope>("cuda_graph_scope", in_model, words),
      field<&Config::cuda_graph_modules>("cuda_graph_modules", in_model, words),
      field<&Config::enable_cuda_graph>("enable_cuda_graph", in_model, boolean),
      field<&Config::external_cuda_graph>("external_cuda_graph", in_model, boolean),
      field<&Config::cuda_graph_warmup_steps>("cuda_graph_warmup_steps", in_model, integer,
                                              {"cuda_graph_num_warmup_steps"}),
      field<&Config::cuda_graph_use_single_mempool>("cuda_graph_use_single_mempool", in_model,
                                                    boolean),
      field<&Config::inference_cuda_graph_scope>("inference_cuda_graph_scope", in_model, word),
      field<&Config::optimizer_cuda_graph>("optimizer_cuda_graph", {model, optimizer, arguments},
                                           boolean),
      field<&Config::cuda_graph_share_io_buffers>("cuda_graph_share_io_buffers", in_model, boolean),
      field<&Config::vision_cuda_graph_impl>("vision_cuda_graph_impl", {model}, word),
      field<&Config::cuda_graph_max_tokens>("cuda_graph_max_tokens", in_model, integer),

      // Random numbers and numerical checks
      field<&Config::use_te_rng_tracker>("use_te_rng_tracker", {model}, boolean),
      field<&Config::te_rng_tracker>("te_rng_tracker", {rng, arguments}, boolean),
      field<&Config::check_for_nan_in_loss>("check_for_nan_in_loss", {rerun_state_machine},
                                            boolean),
      field<&Config::check_for_nan_in_grad>("check_for_nan_in_grad", {ddp}, boolean),
      field<&Config::check_for_nan_in_loss_and_grad>("check_for_nan_in_loss_and_grad", {arguments},
                                                     boolean),
      field<&Config::check_for_large_grads>("check_for_large_grads", in_ddp, boolean),
      field<&Config::check_for_spiky_loss>("check_for_spiky_loss", {rerun_state_machine, arguments},
                                           boolean),
      field<&Config::loss_scale>("loss_scale", {optimizer, arguments}, real),

      // Recompute
      field<&Config::recompute_granularity>("recompute_granularity", in_model, word),
      field<&Config::recompute_method>("recompute_method", in_model, word),
      field<&Config::recompute_num_layers>("recompute_num_layers", in_model, integer),
      field<&Config::recompute_modules>("recompute_modules", in_model, words),
      field<&Config::attention_dropout>("attention_dropout", in_model, real),
      field<&Config::hidden_dropout>("hidden_dropout", in_model, real),

      // Model
      field<&Config::num_layers>("num_layers", in_model, integer),
      field<&Config::hidden_size>("hidden_size", in_model, integer),
      field<&Config::num_attention_heads>("num_attention_heads", in_model, integer),
      field<&Config::num_query_groups>("num_query_groups", in_model, integer),
      field<&Config::seq_length>("seq_length", {model, dataset, arguments}, integer),
      field<&Config::add_bias_linear>("add_bias_linear", in_model, boolean),
      field<&Config::add_qkv_bias>("add_qkv_bias", in_model, boolean),
      field<&Config::is_hybrid_model>("is_hybrid_model", in_model, boolean),
      field<&Config::hybrid_layer_pattern>("hybrid_layer_pattern", in_model,
                                           "letters M, *, - and E", {"hybrid_override_pattern"}),
      field<&Config::multi_latent_attention>("multi_latent_attention", in_model, boolean),
      field<&Config::enable_mhc_connections>("enable_mhc_connections", in_model, boolean),
      field<&Config::experimental_attention_variant>("experimental_attention_variant", in_model,
                                                     word),
      field<&Config::mtp_num_layers>("mtp_num_layers", in_model, integer),
      field<&Config::use_transformer_engine_full_layer_spec>(
          "use_transformer_engine_full_layer_spec", {model}, boolean),
      field<&Config::transformer_impl>("transformer_impl", in_model, word),
      field<&Config::params_dtype>("params_dtype", {model, mixed_precision}, word),
      field<&Config::bf16>("bf16", in_precision, boolean),
      field<&Config::fp16>("fp16", in_precision, boolean),

      // Mixture of experts
      field<&Config::num_moe_experts>("num_moe_experts", in_model, integer, {"num_experts"}),
      field<&Config::moe_layer_freq>("moe_layer_freq", in_model, "integer or list of 0 and 1"),
      field<&Config::moe_router_topk>("moe_router_topk", in_model, integer),
      field<&Config::moe_aux_loss_coeff>("moe_aux_loss_coeff", in_model, real),
      field<&Config::moe_router_enable_expert_bias>("moe_router_enable_expert_bias", in_model,
                                                    boolean),
      field<&Config::moe_ffn_hidden_size>("moe_ffn_hidden_size", in_model, integer),
      field<&Config::moe_expert_capacity_factor>("moe_expert_capacity_factor", in_model, real),
      field<&Config::moe_pad_expert_input_to_capacity>("moe_pad_expert_input_to_capacity", in_model,
                                                       boolean),
      field<&Config::moe_token_dispatcher_type>("moe_token_dispatcher_type", in_model, word),
      field<&Config::moe_flex_dispatcher_backend>("moe_flex_dispatcher_backend", in_model, word),
      field<&Config::moe_router_padding_for_fp8>("moe_router_padding_for_fp8", in_model, boolean),
      field<&Config::moe_router_padding_for_quantization>("moe_router_padding_for_quantization",
                                                          in_model, boolean),
      field<&Config::moe_input_jitter_eps>("moe_input_jitter_eps", in_model, real),
      field<&Config::moe_shared_expert_intermediate_size>("moe_shared_expert_intermediate_size",
                                                          in_model, integer),
      field<&Config::moe_shared_expert_overlap>("moe_shared_expert_overlap", in_model, boolean),
      field<&Config::moe_grouped_gemm>("moe_grouped_gemm", in_model, boolean),
      field<&Config::moe_latent_size>("moe_latent_size", in_model, integer),
      field<&Config::moe_paged_stash>("moe_paged_stash", in_model, boolean),
      field<&Config::moe_expert_rank_capacity_factor>("moe_expert_rank_capacity_factor", in_model,
                                                      real),
      field<&Config::use_transformer_engine_op_fuser>("use_transformer_engine_op_fuser", in_model,
                                                      boolean),

      // Parallel layout and schedule
      field<&Config::tensor_model_parallel_size>("tensor_model_parallel_size", in_model, integer),
      field<&Config::pipeline_model_parallel_size>("pipeline_model_parallel_size", in_model,
                                                   integer),
      field<&Config::virtual_pipeline_model_parallel_size>("virtual_pipeline_model_parallel_size",
                                                           in_model, integer),
      field<&Config::expert_model_parallel_size>("expert_model_parallel_size", in_model, integer),
      field<&Config::data_parallel_size>("data_parallel_size", in_model, integer),
      field<&Config::microbatch_group_size_per_vp_stage>(
          "microbatch_group_size_per_vp_stage", in_model, integer,
          {"microbatch_group_size_per_virtual_pipeline_stage"}),
      field<&Config::num_microbatches>("num_microbatches", {train, arguments}, integer),
      field<&Config::micro_batch_size>("micro_batch_size", {train, arguments}, integer),
      field<&Config::global_batch_size>("global_batch_size", {train, arguments}, integer),
      field<&Config::train_iters>("train_iters", {train, arguments}, integer),
      field<&Config::rampup_batch_size>("rampup_batch_size", {train, arguments},
                                        "list of three integers"),
      field<&Config::sequence_parallel>("sequence_parallel", in_model, boolean),
      field<&Config::variable_seq_lengths>("variable_seq_lengths", in_model, boolean),
      field<&Config::sequence_packing>("sequence_packing", {dataset}, word),
      field<&Config::pad_to_max_length>("pad_to_max_length", {dataset}, boolean),
      field<&Config::pad_cu_seqlens>("pad_cu_seqlens", {dataset}, boolean),
      field<&Config::hybrid_context_parallel>("hybrid_context_parallel", in_model, boolean),
      field<&Config::gtp_weight_remat_size>("gtp_weight_remat_size", in_model, integer),

      // Overlap and delayed weight gradients
      field<&Config::overlap_moe_expert_parallel_comm>("overlap_moe_expert_parallel_comm",
                                                       in_overlap, boolean),
      field<&Config::delay_wgrad_compute>("delay_wgrad_compute", in_overlap, boolean),
      field<&Config::gradient_accumulation_fusion>("gradient_accumulation_fusion", in_model,
                                                   boolean),
      field<&Config::overlap_grad_reduce>("overlap_grad_reduce", {ddp, comm_overlap, arguments},
                                          boolean),
      field<&Config::overlap_param_gather>("overlap_param_gather",
                                           {ddp, comm_overlap, optimizer, arguments}, boolean),
      field<&Config::use_distributed_optimizer>("use_distributed_optimizer",
                                                {ddp, optimizer, arguments}, boolean),
      field<&Config::overlap_p2p_comm>("overlap_p2p_comm", in_overlap, boolean),
      field<&Config::use_megatron_fsdp>("use_megatron_fsdp", in_ddp, boolean),
      field<&Config::use_megatron_fsdp_v2>("use_megatron_fsdp_v2", in_ddp, boolean),
      field<&Config::fsdp_double_buffer>("fsdp_double_buffer", in_ddp, boolean),
      field<&Config::megatron_fsdp_cuda_graph_mode>("megatron_fsdp_cuda_graph_mode", in_ddp,
                                                    boolean),
      field<&Config::nccl_ub>("nccl_ub", in_ddp, boolean),
      field<&Config::optimizer>("optimizer", {optimizer, arguments}, word),

      // Offload
      field<&Config::cpu_offloading>("cpu_offloading", in_model, boolean),
      field<&Config::cpu_offloading_num_layers>("cpu_offloading_num_layers", in_model, integer),
      field<&Config::fine_grained_activation_offloading>("fine_grained_activation_offloading",
                                                         in_model, boolean),
      field<&Config::offload_modules>("offload_modules", in_model, words),
      field<&Config::fine_grained_offloading_max_inflight_offloads>(
          "fine_grained_offloading_max_inflight_offloads", in_model, integer),

      // Precision
      field<&Config::fp8>("fp8", in_precision, word, {"fp8_format"}),
      field<&Config::fp8_recipe>("fp8_recipe", in_precision, word),
      field<&Config::fp8_margin>("fp8_margin", in_precision, integer),
      field<&Config::fp8_amax_history_len>("fp8_amax_history_len", in_precision, integer),
      field<&Config::fp8_amax_compute_algo>("fp8_amax_compute_algo", in_precision, word),
      field<&Config::tp_only_amax_red>("tp_only_amax_red", in_model, boolean),
      field<&Config::fp4>("fp4", in_precision, "boolean or e2m1", {"fp4_format"}),
      field<&Config::cross_entropy_fusion_impl>("cross_entropy_fusion_impl", in_model, word),

      // Inference and reinforcement learning
      field<&Config::inference_batch_times_seqlen_threshold>(
          "inference_batch_times_seqlen_threshold", in_model, integer),
      field<&Config::inference_dynamic_batching_num_cuda_graphs>(
          "inference_dynamic_batching_num_cuda_graphs", in_model, integer),
      field<&Config::inference_dynamic_batching_unified_memory_level>(
          "inference_dynamic_batching_unified_memory_level", in_model, integer),
      field<&Config::inference_max_requests>("inference_max_requests", in_model, integer,
                                             {"max_requests"}),
      field<&Config::num_speculative_tokens>("num_speculative_tokens", in_model, integer),
      field<&Config::rl_persist_cuda_graphs>("rl_persist_cuda_graphs", in_model, boolean),
      field<&Config::rl_training_cuda_graphs>("rl_training_cuda_graphs", in_model, boolean),
      field<&Config::rl_offload_kv_cache_during_training>("rl_offload_kv_cache_during_training",
                                                          in_model, boolean),
  };
  for (Field& entry : fields) {
    if (entry.name == "fp4") entry.read = read_presence<&Config::fp4>;
    if (entry.name == "rampup_batch_size") {
      entry.read = read_presence<&Config::rampup_batch_size>;
    }
  }
  return fields;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> table = make_fields();
  return table;
}

const std::unordered_map<std::string_view, FieldIndex>& names() {
  static const std::unordered_map<std::string_view, FieldIndex> index = [] {
    std::unordered_map<std::string_view, FieldIndex> map;
    for (std::size_t i = 0; i < fields().size(); ++i) {
      map.emplace(fields()[i].name, static_cast<FieldIndex>(i));
      for (std::string_view alias : fields()[i].aliases) {
        if (!alias.empty()) map.emplace(alias, static_cast<FieldIndex>(i));
      }
    }
    return map;
  }();
  return index;
}

}  // namespace

std::span<const Field> field_table() {
  return fields();
}

std::optional<FieldHome> find_section(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, FieldHome>, 9> sections{{
      {"model", model},
      {"ddp", ddp},
      {"rng", rng},
      {"rerun_state_machine", rerun_state_machine},
      {"comm_overlap", comm_overlap},
      {"train", train},
      {"dataset", dataset},
      {"optimizer", optimizer},
      {"mixed_precision", mixed_precision},
  }};
  for (const auto& [section, home] : sections) {
    if (section == name) return home;
  }
  return std::nullopt;
}

const Field& field_at(FieldIndex index) {
  return fields()[static_cast<std::size_t>(index)];
}

std::optional<FieldIndex> find_field(std::string_view name) {
  const auto found = names().find(name);
  if (found == names().end()) return std::nullopt;
  return found->second;
}

std::string_view nearest_field(std::string_view name) {
  const std::string_view compared = name.substr(0, longest_quoted_word);
  std::string_view nearest;
  std::size_t smallest = std::numeric_limits<std::size_t>::max();
  for (const auto& [candidate, index] : names()) {
    const std::size_t distance = edit_distance(compared, candidate);
    // Equal distances are settled by the alphabet: the map has no order of its own.
    if (distance < smallest || (distance == smallest && candidate < nearest)) {
      smallest = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

FieldIndex require_field(std::string_view name) {
  if (const std::optional<FieldIndex> index = find_field(name)) return *index;
  throw InputError(fmt::format("{} is not a known field; did you mean '{}'?", quoted_word(name),
                               nearest_field(name)));
}

void set_field(TrainingConfig& config, FieldIndex field, const FieldValue& value) {
  try {
    field_at(field).read(value, config);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", field_at(field).name, error.what()));
  }
}

FieldAssignment::FieldAssignment(FieldIndex field, const FieldValue& value)
    : field_(field), load_(field_at(field).load) {
  TrainingConfig config;
  set_field(config, field, value);
  field_at(field).save(config, bytes_);
}

}  // namespace cgconform::matrix
