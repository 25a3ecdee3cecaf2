#include "matrix/axis.hpp"

#include <algorithm>

#include "matrix/axis_parsers.hpp"
#include "matrix/scale.hpp"

namespace cgconform::matrix {
namespace {

template <auto Field, std::int32_t Minimum>
constexpr auto config_count = &parse_count<&Cell::config, Field, Minimum>;
template <auto Field, std::int32_t Minimum>
constexpr auto shape_count = &parse_count<&Cell::shape, Field, Minimum>;

std::vector<AxisDefinition> make_axis_table() {
  return {
      {.name = "impl",
       .aliases = {"implementation", "cuda_graph_impl"},
       .fields = {"cuda_graph_impl"},
       .summary = "who captures: nobody, Megatron's local managers, Transformer Engine",
       .default_token = "none",
       .examples = {"none", "local", "transformer_engine", "full_iteration"},
       .closed = true,
       .always_in_id = true,
       .parse = parse_impl},
      {.name = "scope",
       .aliases = {"cuda_graph_scope", "cuda_graph_modules"},
       .fields = {"cuda_graph_scope"},
       .summary = "what is captured: whole layers, modules of a layer joined by +, the iteration",
       .default_token = "layer",
       .examples = {"layer", "attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba",
                    "attn+mlp", "moe_router+moe_preprocess", "full_iteration"},
       .always_in_id = true,
       .parse = parse_scope},
      {.name = "recompute",
       .aliases = {},
       .fields = {"recompute_granularity", "recompute_method", "recompute_num_layers",
                  "recompute_modules"},
       .summary = "activations computed again in the backward pass: full, by method (`:N` layers, "
                  "1 where absent), or modules joined by +",
       .default_token = "none",
       .examples = {"none", "full-uniform", "full-block", "core_attn", "moe_act", "layernorm",
                    "mla_up_proj", "mlp", "moe", "shared_experts", "core_attn+mlp"},
       .parse = parse_recompute},
      {.name = "pp",
       .aliases = {"pipeline_model_parallel_size"},
       .fields = {"pipeline_model_parallel_size"},
       .summary = "pipeline stages",
       .default_token = "1",
       .examples = {"1", "2", "4", "8"},
       .parse = config_count<&TrainingConfig::pipeline_model_parallel_size, 1>},
      {.name = "vp",
       .aliases = {"chunks", "virtual_pipeline_model_parallel_size"},
       .fields = {"virtual_pipeline_model_parallel_size"},
       .summary = "model chunks a pipeline stage; 1 leaves the field unset",
       .default_token = "1",
       .examples = {"1", "2"},
       .parse = parse_virtual_stages},
      {.name = "tp",
       .aliases = {"tensor_model_parallel_size"},
       .fields = {"tensor_model_parallel_size"},
       .summary = "ranks a tensor is split over",
       .default_token = "1",
       .examples = {"1", "2"},
       .parse = config_count<&TrainingConfig::tensor_model_parallel_size, 1>},
      {.name = "dp",
       .aliases = {"data_parallel_size"},
       .fields = {"data_parallel_size"},
       .summary = "data-parallel replicas",
       .default_token = "1",
       .examples = {"1", "2"},
       .parse = config_count<&TrainingConfig::data_parallel_size, 1>},
      {.name = "ep",
       .aliases = {"expert_model_parallel_size"},
       .fields = {"expert_model_parallel_size"},
       .summary = "ranks the experts are spread over",
       .default_token = "1",
       .examples = {"1", "2"},
       .parse = config_count<&TrainingConfig::expert_model_parallel_size, 1>},
      {.name = "alloc",
       .aliases = {"allocator"},
       .fields = {"expandable_segments", "stream_ordered_segments"},
       .summary = "segments of the caching allocator: plain, expandable through the virtual memory "
                  "API, or async from the runtime's stream-ordered pool",
       .default_token = "plain",
       .examples = {"plain", "expandable", "async"},
       .closed = true,
       .parse = parse_allocator},
      {.name = "ncclreg",
       .aliases = {"nccl_graph_register"},
       .fields = {"nccl_graph_register"},
       .summary = "NCCL_GRAPH_REGISTER",
       .default_token = "unset",
       .examples = {"unset", "0", "1"},
       .closed = true,
       .parse = parse_graph_register},
      {.name = "pool",
       .aliases = {"graph_pool"},
       .fields = {"graph_pool"},
       .summary = "memory pool of the graphs: one for all, or one each",
       .default_token = "shared",
       .examples = {"shared", "separate"},
       .closed = true,
       .parse = parse_pool},
      {.name = "model",
       .aliases = {"model_kind"},
       .fields = {"model_kind", "num_moe_experts", "moe_layer_freq", "moe_aux_loss_coeff",
                  "moe_expert_capacity_factor", "moe_pad_expert_input_to_capacity",
                  "moe_token_dispatcher_type", "moe_shared_expert_intermediate_size",
                  "moe_grouped_gemm", "is_hybrid_model"},
       .summary = "kind of model",
       .default_token = "dense",
       .examples = {"dense", "moe_dropless", "moe_drop_and_pad", "hybrid_mamba", "hybrid_moe"},
       .closed = true,
       .parse = parse_model},
      {.name = "attention",
       .aliases = {},
       .fields = {"num_query_groups", "multi_latent_attention"},
       .summary =
           "keys and values of attention: for every head, for N groups of heads (`grouped:N`), "
           "or by way of latents",
       .default_token = "heads",
       .examples = {"heads", "grouped:1", "grouped:2", "latent"},
       .parse = parse_attention},
      {.name = "image_tokens",
       .aliases = {},
       .fields = {"image_tokens"},
       .summary = "rows of every sequence that come from an image, before the text; 0 for none",
       .default_token = "0",
       .examples = {"0", "2"},
       .parse = shape_count<&WorkloadShape::image_tokens, 0>},
      {.name = "pattern",
       .aliases = {"hybrid_layer_pattern"},
       .fields = {"hybrid_layer_pattern"},
       .summary =
           "layers of a hybrid model, a letter each: M (Mamba), A (attention), F (MLP), E "
           "(experts); fewer letters than layers begin anew; the default is MAME in a model with "
           "experts",
       .default_token = "MAMF",
       .examples = {"MAMF", "MA", "MMF", "MAE"},
       .parse = parse_pattern},
      {.name = "packing",
       .aliases = {},
       .fields = {"sequence_packing", "pad_to_max_length", "pad_cu_seqlens"},
       .summary =
           "sequences packed into each row of a batch: none, or several with the row and the "
           "list of borders padded, or neither padded",
       .default_token = "none",
       .examples = {"none", "padded", "unpadded"},
       .closed = true,
       .parse = parse_packing},
      {.name = "dtype",
       .aliases = {"params_dtype"},
       .fields = {"params_dtype"},
       .summary = "type of parameters and activations",
       .default_token = "fp32",
       .examples = {"fp32", "fp64", "bf16", "fp16"},
       .closed = true,
       .parse = parse_dtype},
      {.name = "optimizer",
       .aliases = {},
       .fields = {"optimizer"},
       .summary = "optimizer",
       .default_token = "adam",
       .examples = {"sgd", "adam"},
       .closed = true,
       .parse = parse_optimizer},
      {.name = "dropout",
       .aliases = {},
       .fields = {"attention_dropout", "hidden_dropout"},
       .summary = "both dropout rates",
       .default_token = "0.1",
       .examples = {"0", "0.1"},
       .parse = parse_dropout},
      {.name = "microbatches",
       .aliases = {"num_microbatches"},
       .fields = {"num_microbatches"},
       .summary = "micro-batches a step",
       .default_token = "1",
       .examples = {"1", "4", "8"},
       .parse = config_count<&TrainingConfig::num_microbatches, 1>},
      {.name = "warmup",
       .aliases = {"cuda_graph_warmup_steps"},
       .fields = {"cuda_graph_warmup_steps"},
       .summary = "eager steps before capture",
       .default_token = "3",
       .examples = {"0", "1", "3"},
       .parse = config_count<&TrainingConfig::cuda_graph_warmup_steps, 0>},
      {.name = "steps",
       .aliases = {},
       .fields = {"steps"},
       .summary = "training steps a leg runs",
       .default_token = "4",
       .examples = {"4", "8"},
       .parse = shape_count<&WorkloadShape::steps, 1>},
      {.name = "eval_interval",
       .aliases = {},
       .fields = {"eval_interval"},
       .summary = "a validation step every so many steps; 0 for none",
       .default_token = "0",
       .examples = {"0", "2"},
       .parse = shape_count<&WorkloadShape::eval_interval, 0>},
      {.name = "eval_iters",
       .aliases = {},
       .fields = {"eval_iters"},
       .summary = "micro-batches of a validation step",
       .default_token = "1",
       .examples = {"1", "2"},
       .parse = shape_count<&WorkloadShape::eval_iters, 1>},
      {.name = "bucket",
       .aliases = {"bucket_size"},
       .fields = {"bucket_size"},
       .summary = "elements of a bucket of gradients that replicas reduce together",
       .default_token = "1024",
       .examples = {"256", "1024"},
       .parse = shape_count<&WorkloadShape::bucket_size, 1>},
      {.name = "graphed",
       .aliases = {"graphed_layers"},
       .fields = {"graphed_layers"},
       .summary = "layers that per-layer graphs cover, odd ones counted from 0; the others run "
                  "eagerly",
       .default_token = "all",
       .examples = {"all", "first", "last", "odd"},
       .closed = true,
       .parse = parse_graphed_layers},
      {.name = "form",
       .aliases = {"capture_form"},
       .fields = {"capture_form"},
       .summary = "how an iteration is captured: as impl and scope say, with the optimizer in one "
                  "graph, in parts where the host reads, the layers as a pair of callables",
       .default_token = "configured",
       .examples = {"configured", "whole_step", "partitioned", "callables"},
       .closed = true,
       .parse = parse_capture_form},
      {.name = "clip",
       .aliases = {"clip_grad"},
       .fields = {"clip_grad"},
       .summary = "largest global norm of a step's gradients; 0 does not clip",
       .default_token = "0",
       .examples = {"0", "0.5"},
       .parse = parse_clip_grad},
      {.name = "last_batch",
       .aliases = {},
       .fields = {"last_batch"},
       .summary = "the last micro-batch of every third step: full, or with half of the sequences, "
                  "padded to the others' shape or run eagerly beside graphs",
       .default_token = "full",
       .examples = {"full", "padded", "eager"},
       .closed = true,
       .parse = parse_last_batch},
      {.name = "ffn",
       .aliases = {"ffn_hidden_size"},
       .fields = {"ffn_hidden_size"},
       .summary = "inner size of the MLP",
       .default_token = "32",
       .examples = {"32", "64"},
       .parse = shape_count<&WorkloadShape::ffn_hidden_size, 1>},
      {.name = "vocab",
       .aliases = {"vocab_size"},
       .fields = {"vocab_size"},
       .summary = "size of the vocabulary",
       .default_token = "32",
       .examples = {"32", "64"},
       .parse = shape_count<&WorkloadShape::vocab_size, 2>},
      {.name = "scale",
       .aliases = {},
       .fields = {},
       .summary = "sizes of the model and its batches, where the matrix names none; tiny: its own",
       .default_token = own_scale,
       .examples = {"tiny", "small", "medium", "large"},
       .closed = true,
       .parse = parse_scale},
  };
}

}  // namespace

std::span<const AxisDefinition> axis_table() {
  static const std::vector<AxisDefinition> table = make_axis_table();
  return table;
}

const AxisDefinition* find_axis_definition(std::string_view name_or_alias) {
  for (const AxisDefinition& row : axis_table()) {
    const bool aliased =
        std::find(row.aliases.begin(), row.aliases.end(), name_or_alias) != row.aliases.end();
    if (row.name == name_or_alias || aliased) return &row;
  }
  return nullptr;
}

std::int32_t Axis::find(std::string_view token) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].token == token) return static_cast<std::int32_t>(i);
  }
  return -1;
}

bool Axis::answers_to(std::string_view name_or_alias) const {
  return name == name_or_alias ||
         std::find(aliases.begin(), aliases.end(), name_or_alias) != aliases.end();
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.+:-").find(c) != std::string_view::npos;
  });
}

}  // namespace cgconform::matrix
