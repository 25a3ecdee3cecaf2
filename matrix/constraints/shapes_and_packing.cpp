#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
using M = CudaGraphModule;
constexpr Subject subject = Subject::shapes_and_packing;
constexpr std::string_view shape_remedy =
    "set variable_seq_lengths to false and keep seq_length and micro_batch_size fixed; pack with "
    "padding to a fixed width";
constexpr std::string_view replay_stops = "the replay stops with an assertion";
/// Megatron-LM turns varying lengths off before anything looks at them.
constexpr Rulesets with_varying_lengths{Ruleset::seed, Ruleset::cgconform, Ruleset::mcore_0_17,
                                        Ruleset::mcore_0_20, Ruleset::bridge_0_6};
/// Bridge's packing rules are also the seed documents' reading: packed sequences must be padded.
constexpr Rulesets seed_and_bridge{Ruleset::seed, Ruleset::cgconform, Ruleset::bridge_0_6};

bool packs_offline(const Facts& f) {
  return f.config.sequence_packing == SequencePacking::offline;
}

constexpr Rule rows[] = {
    {.id = "heads-divide-hidden-size",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "hidden_size is a multiple of num_attention_heads",
     .message = "the hidden size does not divide evenly over the attention heads",
     .remedy = "set hidden_size to a multiple of num_attention_heads",
     .consequence = "the model cannot be built",
     .source = "every head has hidden_size / num_attention_heads channels in this workload",
     .fields = {"hidden_size", "num_attention_heads"},
     .broken =
         [](const Facts& f) {
           const std::int32_t heads = f.config.num_attention_heads;
           return heads > 0 && f.config.hidden_size % heads != 0;
         }},
    {.id = "tensor-parts-divide-heads",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "num_attention_heads is a multiple of tensor_model_parallel_size",
     .message = "the attention heads do not divide evenly over the tensor-parallel ranks",
     .remedy = "set num_attention_heads to a multiple of tensor_model_parallel_size",
     .consequence = "the model cannot be built",
     .source = "every tensor-parallel rank computes equally many heads in this workload",
     .fields = {"num_attention_heads", "tensor_model_parallel_size"},
     .broken =
         [](const Facts& f) {
           const std::int32_t parts = f.config.tensor_model_parallel_size;
           return parts > 0 && f.config.num_attention_heads % parts != 0;
         }},
    {.id = "query-groups-divide-heads",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "num_attention_heads is a multiple of num_query_groups, and those of "
                  "tensor_model_parallel_size",
     .message =
         "the attention heads do not divide evenly over the query groups, or the groups over "
         "the tensor-parallel ranks",
     .remedy = "set num_query_groups to a divisor of num_attention_heads and a multiple of "
               "tensor_model_parallel_size",
     .consequence = "the model cannot be built",
     .source = "every group has equally many heads, and every rank equally many groups, in this "
               "workload",
     .fields = {"num_attention_heads", "num_query_groups", "tensor_model_parallel_size"},
     .broken =
         [](const Facts& f) {
           const std::int32_t groups = f.config.num_query_groups.value_or(1);
           const std::int32_t ranks = f.config.tensor_model_parallel_size;
           if (groups < 1 || f.config.num_attention_heads % groups != 0) return true;
           return f.config.num_query_groups.has_value() && ranks > 0 && groups % ranks != 0;
         }},
    {.id = "expert-ranks-divide-replicas",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "with experts data_parallel_size is a multiple of expert_model_parallel_size",
     .message = "the replicas do not divide evenly into expert-parallel groups",
     .remedy = "set expert_model_parallel_size to a divisor of data_parallel_size",
     .consequence = "the groups of ranks cannot be made",
     .source = "Megatron-Core splits every expert over tensor_model_parallel_size ranks where "
               "expert_tensor_parallel_size is not set, so that only replicas are left to spread "
               "experts over",
     .fields = {"expert_model_parallel_size", "data_parallel_size", "num_moe_experts"},
     .when = {G::moe_model},
     .broken =
         [](const Facts& f) {
           const std::int32_t ranks = f.config.expert_model_parallel_size;
           return ranks > 0 && f.config.data_parallel_size % ranks != 0;
         }},
    {.id = "expert-ranks-divide-experts",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "num_moe_experts is a multiple of expert_model_parallel_size",
     .message = "the experts do not divide evenly over the ranks of an expert-parallel group",
     .remedy = "set expert_model_parallel_size to a divisor of num_moe_experts",
     .consequence = "the model cannot be built",
     .source = "every rank of a group holds equally many experts, in Megatron-Core and in this "
               "workload",
     .fields = {"expert_model_parallel_size", "num_moe_experts"},
     .when = {G::moe_model},
     .broken =
         [](const Facts& f) {
           const std::int32_t ranks = f.config.expert_model_parallel_size;
           return ranks > 0 && f.config.num_moe_experts.value_or(1) % ranks != 0;
         }},
    {.id = "shared-rows-need-tensor-parts",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "sequence_parallel needs tensor_model_parallel_size > 1",
     .message = "there are no tensor-parallel ranks to share the rows of hidden states",
     .remedy = "set sequence_parallel to false, or tensor_model_parallel_size to 2 or more",
     .consequence = "the configuration class stops with an error",
     .source = "Megatron-Core's ModelParallelConfig refuses it, and Megatron-LM turns it off",
     .fields = {"sequence_parallel", "tensor_model_parallel_size"},
     .broken =
         [](const Facts& f) {
           return f.config.sequence_parallel && f.config.tensor_model_parallel_size <= 1;
         }},
    {.id = "stages-divide-layers",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "num_layers is a multiple of the number of model chunks of all pipeline stages",
     .message = "the layers do not divide evenly over the pipeline stages and their model chunks",
     .remedy = "set num_layers to a multiple of pipeline_model_parallel_size times "
               "virtual_pipeline_model_parallel_size",
     .consequence = "the model cannot be built",
     .source = "every stage has equally many layers in this workload",
     .fields = {"num_layers", "pipeline_model_parallel_size",
                "virtual_pipeline_model_parallel_size"},
     .broken =
         [](const Facts& f) {
           const std::int64_t chunks =
               std::int64_t{f.config.pipeline_model_parallel_size} * f.virtual_stages();
           return chunks > 0 && f.config.num_layers % chunks != 0;
         }},
    {.id = "mlm-variable-seq-off",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .action = Action::auto_fix,
     .statement = "Megatron-LM turns variable_seq_lengths off",
     .message = "variable_seq_lengths is turned off",
     .remedy = "none needed",
     .consequence = "none",
     .source = "AR:1272",
     .fields = {"variable_seq_lengths"},
     .broken = [](const Facts& f) { return f.config.variable_seq_lengths; },
     .repair = [](TrainingConfig& c) { c.variable_seq_lengths = false; }},
    {.id = "te-static-shapes",
     .subject = subject,
     .rulesets = with_varying_lengths,
     .layer = Layer::replay,
     .statement = "under transformer_engine every input of a replay has the captured shape",
     .message = "sequence lengths vary between steps while graphs of Transformer Engine are "
                "replayed",
     .remedy = shape_remedy,
     .consequence = "the copy into the static input fails, or broadcasts a size of 1 silently",
     .source = "TGR:1045-1050",
     .fields = {"variable_seq_lengths", "cuda_graph_impl"},
     .when = {G::te},
     .broken = [](const Facts& f) { return f.config.variable_seq_lengths; }},
    {.id = "local-arg-match",
     .subject = subject,
     .rulesets = with_varying_lengths,
     .layer = Layer::replay,
     .statement = "under local every argument has the recorded shape, type, device and value",
     .message = "sequence lengths vary between steps while local graphs are replayed",
     .remedy = shape_remedy,
     .consequence = replay_stops,
     .source = "CG:1712-1721, CG:1738-1801",
     .fields = {"variable_seq_lengths", "cuda_graph_impl"},
     .when = {G::local_per_layer},
     .broken = [](const Facts& f) { return f.config.variable_seq_lengths; }},
    {.id = "full-iter-static-shapes",
     .subject = subject,
     .rulesets = with_varying_lengths,
     .layer = Layer::replay,
     .statement = "under full_iteration every batch has the shape of the first one",
     .message = "sequence lengths vary between steps while the whole iteration is replayed",
     .remedy = shape_remedy,
     .consequence = "the copy into the static batch fails",
     .source = "FCG:107-135",
     .fields = {"variable_seq_lengths", "cuda_graph_impl", "cuda_graph_scope"},
     .when = {G::full_iteration},
     .broken = [](const Facts& f) { return f.config.variable_seq_lengths; }},
    {.id = "te-sample-layout",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "sample inputs are [seq/CP/(TP with sequence parallelism), mbs, hidden] in bf16",
     .message = "sample inputs are always bf16",
     .remedy = "none needed",
     .consequence = "none",
     .source = "MOD:257-271, TL:1222-1232"},
    {.id = "te-tensor-only",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .statement = "arguments are tensors, keyword arguments tensors or None, and hidden_states the "
                  "only positional one",
     .message = "a layer is called with something else than tensors",
     .remedy = "pass tensors only",
     .consequence = replay_stops,
     .source = "MOD:314-319, TL:1461-1463"},
    {.id = "te-no-packed",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .statement = "with attn or whole layers captured there are no packed sequences and no "
                  "inference context",
     .message = "packed sequences reach a captured attention",
     .remedy = "capture moe_router and moe_preprocess only, or do not pack",
     .consequence = replay_stops,
     .source = "TL:1328-1342, MA:213-216",
     .fields = {"sequence_packing", "cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::te, G::packing},
     .broken = [](const Facts& f) { return f.captured(M::attn); }},
    {.id = "te-kwargs-1.10",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "keyword arguments other than attention_mask need Transformer Engine 1.10.0",
     .message = "a captured layer takes keyword arguments",
     .remedy = "use Transformer Engine 1.10.0 or later",
     .consequence = "the capture stops with an assertion",
     .source = "CG:2426-2442, TL:1484-1498"},
    {.id = "te-mask-none-to-zeros",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "an absent attention_mask is replaced by zeros at replay",
     .message = "a zero mask is used",
     .remedy = "none needed",
     .consequence = "none",
     .source = "TL:1499-1507"},
    {.id = "local-no-runner",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .statement = "after creation every call finds a ready runner with matching arguments (PP 1)",
     .message = "a layer is called more often, or with other arguments, than was recorded",
     .remedy = "keep the schedule fixed after capture",
     .consequence = replay_stops,
     .source = "CG:1985-1991"},
    {.id = "local-arg-types",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .statement =
         "arguments are tensors, process groups, None, plain scalars, strings, dataclasses "
         "or inference contexts",
     .message = "a layer is called with an argument of another type",
     .remedy = "pass one of these types",
     .consequence = replay_stops,
     .source = "CG:381-405"},
    {.id = "allgather-no-variable-seq",
     .subject = subject,
     .rulesets = {Ruleset::mcore_0_17, Ruleset::mcore_0_20, Ruleset::bridge_0_6},
     .layer = Layer::config,
     .statement = "the allgather dispatcher (the default, also of dense models) goes without "
                  "variable_seq_lengths",
     .message = "variable_seq_lengths is set with the allgather dispatcher",
     .remedy = "use alltoall or flex, or turn variable_seq_lengths off",
     .consequence = "the configuration class stops with an error",
     .source = "TC:2977-2982",
     .fields = {"variable_seq_lengths", "moe_token_dispatcher_type"},
     .broken = [](const Facts& f) { return f.config.variable_seq_lengths && f.allgather(); }},
    {.id = "bridge-pack-static-width",
     .subject = subject,
     .rulesets = seed_and_bridge,
     .layer = Layer::bridge,
     .statement = "offline packing with full_iteration or transformer_engine needs "
                  "pad_to_max_length",
     .message = "packed sequences are not padded to a fixed width",
     .remedy = "set pad_to_max_length",
     .consequence = "the width of a batch changes from step to step",
     .source = "BCF:1298-1300",
     .fields = {"sequence_packing", "pad_to_max_length", "cuda_graph_impl"},
     .when = {G::graphs, G::packing},
     .broken =
         [](const Facts& f) {
           return packs_offline(f) && (f.full_iteration() || f.te()) && !f.config.pad_to_max_length;
         }},
    {.id = "bridge-pack-cu-seqlens",
     .subject = subject,
     .rulesets = seed_and_bridge,
     .layer = Layer::bridge,
     .statement = "offline packing with full_iteration, or with attn or whole layers under "
                  "transformer_engine, needs pad_cu_seqlens",
     .message = "the list of sequence borders is not padded to a fixed length",
     .remedy = "set pad_cu_seqlens and pad_to_max_length",
     .consequence = "the number of sequences in a batch changes from step to step",
     .source = "BCF:1290-1309",
     .fields = {"sequence_packing", "pad_cu_seqlens", "cuda_graph_impl", "cuda_graph_scope"},
     .when = {G::graphs, G::packing},
     .broken =
         [](const Facts& f) {
           return packs_offline(f) && !f.config.pad_cu_seqlens &&
                  (f.full_iteration() || (f.te() && f.captured(M::attn)));
         }},
    {.id = "bridge-energon-pack",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .statement = "packing by energon goes without graphs, also of the vision model",
     .message = "energon packs sequences while graphs are on",
     .remedy = "set cuda_graph_impl and vision_cuda_graph_impl to none",
     .consequence = "shapes change from step to step",
     .source = "BCF:1336-1339",
     .fields = {"sequence_packing", "cuda_graph_impl", "vision_cuda_graph_impl"},
     .when = {G::packing},
     .broken =
         [](const Facts& f) {
           return f.config.sequence_packing == SequencePacking::energon &&
                  (f.graphs() || f.config.vision_cuda_graph_impl != CudaGraphImpl::none);
         }},
    {.id = "bridge-packed-moe-router",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::replay,
     .statement = "packed batches of a MoE model under transformer_engine need a scope without "
                  "whole layers and MoE parts",
     .message = "a router is captured while packed batches carry a padding mask",
     .remedy = "capture attn or mlp only, or do not pack",
     .consequence = "the step stops with an error",
     .source = "BGS:184-198",
     .fields = {"sequence_packing", "num_moe_experts", "cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::te, G::packing, G::moe_model},
     .broken =
         [](const Facts& f) {
           return f.whole_layer() || f.config.cuda_graph_scope.contains_any(
                                         {M::moe, M::moe_router, M::moe_preprocess});
         }},
    {.id = "bridge-inbatch-pack-pp",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .action = Action::warn,
     .statement = "packing in the batch with pipeline parallelism sets variable_seq_lengths",
     .message = "packing in the batch makes sequence lengths vary, and nothing checks it against "
                "graphs",
     .remedy = "pack offline with padding, or turn graphs off",
     .consequence = "shapes change from step to step",
     .source = "BTC:185-186; no check there",
     .fields = {"sequence_packing", "pipeline_model_parallel_size", "cuda_graph_impl"},
     .when = {G::graphs, G::packing},
     .broken =
         [](const Facts& f) {
           return f.config.sequence_packing == SequencePacking::in_batch &&
                  f.config.pipeline_model_parallel_size > 1;
         }},
    {.id = "vision-max-seq",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::replay,
     .statement = "vision tokens are at most max_vision_cuda_graph_seq_length",
     .message = "an image has more tokens than the vision graph was captured for",
     .remedy = "raise max_vision_cuda_graph_seq_length",
     .consequence = replay_stops,
     .source = "BVM:57-61",
     .fields = {"vision_cuda_graph_impl"}},
};

}  // namespace

std::span<const Rule> shape_rules() {
  return rows;
}

}  // namespace cgconform::matrix
