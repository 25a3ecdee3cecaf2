#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
using M = CudaGraphModule;
constexpr Subject subject = Subject::delayed_wgrad;
constexpr std::string_view class_stops = "the configuration class stops with an error";
constexpr std::string_view validation_stops = "validation stops with an assertion";
constexpr std::string_view wgrad_message =
    "delayed weight gradients run inside a captured region (attn, or moe_router with shared "
    "experts "
    "that do not overlap)";

/// Megatron-LM checks the rules of delayed gradients in graphs only where gradient reduction
/// overlaps; Bridge always. Both ignore `cuda_graph_impl`, so a stale scope counts.
bool framework_wgrad_in_graph(const Facts& f) {
  if (f.ruleset == Ruleset::megatron_lm_0_20 && !f.config.overlap_grad_reduce) return false;
  return f.wgrad_in_graph(f.scope_or_written());
}

/// The seed documents count every captured router.
bool seed_wgrad_in_graph(const Facts& f) {
  return f.in_scope(M::attn) || f.in_scope(M::moe_router);
}

bool any_attention_bias(const Facts& f) {
  return f.config.add_bias_linear || f.config.add_qkv_bias;
}

/// The same rule as Bridge's own validation enforces it.
constexpr Rule in_bridge(Rule rule) {
  rule.rulesets = {Ruleset::bridge_0_6};
  rule.layer = Layer::bridge;
  return rule;
}

constexpr Rule graph_needs_te_2_12{
    .id = "delay-wgrad-graph-te-2.12",
    .subject = subject,
    .rulesets = {Ruleset::megatron_lm_0_20},
    .layer = Layer::args,
    .statement = "delayed weight gradients inside a graph need Transformer Engine 2.12.0",
    .message = wgrad_message,
    .remedy = "use Transformer Engine 2.12.0 or later, or turn delay_wgrad_compute off",
    .consequence = "older versions leave the weight gradient out of the graph: stale gradients",
    .source = "AR:1915-1918, BCO:545-548",
    .fields = {"delay_wgrad_compute", "cuda_graph_scope", "moe_shared_expert_intermediate_size",
               "moe_shared_expert_overlap", "overlap_grad_reduce"},
    .when = {G::delay_wgrad},
    .broken = framework_wgrad_in_graph,
    .library = Library::transformer_engine,
    .at_least = {2, 12, 0}};

constexpr Rule graph_needs_fusion{
    .id = "delay-wgrad-graph-ga-fusion",
    .subject = subject,
    .rulesets = {Ruleset::megatron_lm_0_20},
    .layer = Layer::args,
    .statement = "delayed weight gradients inside a graph need gradient_accumulation_fusion",
    .message = wgrad_message,
    .remedy = "set gradient_accumulation_fusion, or turn delay_wgrad_compute off",
    .consequence = "the accumulated gradient is lost between replays",
    .source = "AR:1919-1923, BCO:549-553",
    .fields = {"delay_wgrad_compute", "gradient_accumulation_fusion", "cuda_graph_scope",
               "moe_shared_expert_intermediate_size", "moe_shared_expert_overlap",
               "overlap_grad_reduce"},
    .when = {G::delay_wgrad},
    .broken = [](const Facts& f) {
      return !f.config.gradient_accumulation_fusion && framework_wgrad_in_graph(f);
    }};

constexpr Rule graph_needs_no_attention_bias{
    .id = "delay-wgrad-graph-no-attn-bias",
    .subject = subject,
    .rulesets = {Ruleset::megatron_lm_0_20},
    .layer = Layer::args,
    .statement = "delayed weight gradients with attn captured go without attention bias",
    .message = "delayed weight gradients run inside a captured attention that has a bias",
    .remedy = "set add_bias_linear and add_qkv_bias to false, or turn delay_wgrad_compute off",
    .consequence = "the gradient of the bias is computed outside the graph from stale inputs",
    .source = "AR:1924-1927, BCO:554-557",
    .fields = {"delay_wgrad_compute", "add_bias_linear", "add_qkv_bias", "cuda_graph_scope",
               "overlap_grad_reduce"},
    .when = {G::delay_wgrad},
    .broken = [](const Facts& f) {
      return any_attention_bias(f) && f.scope_or_written().contains(M::attn) &&
             framework_wgrad_in_graph(f);
    }};

constexpr Rule rows[] = {
    {.id = "delay-wgrad-needs-ep-overlap",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "delay_wgrad_compute needs overlap_moe_expert_parallel_comm",
     .message = "weight gradients are delayed without expert-parallel overlap",
     .remedy = "set overlap_moe_expert_parallel_comm, or turn delay_wgrad_compute off",
     .consequence = class_stops,
     .source = "TC:3074-3077, BCO:532-535",
     .fields = {"delay_wgrad_compute", "overlap_moe_expert_parallel_comm"},
     .when = {G::delay_wgrad},
     .broken = [](const Facts& f) { return !f.config.overlap_moe_expert_parallel_comm; }},
    {.id = "ep-overlap-needs-ep",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap needs expert_model_parallel_size > 1",
     .message = "expert-parallel overlap is on without expert parallelism",
     .remedy = "set expert_model_parallel_size to 2 or more",
     .consequence = class_stops,
     .source = "TC:3002-3046, BCO:478-518",
     .fields = {"overlap_moe_expert_parallel_comm", "expert_model_parallel_size"},
     .when = {G::ep_overlap},
     .broken = [](const Facts& f) { return f.config.expert_model_parallel_size <= 1; }},
    {.id = "ep-overlap-needs-vp",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap with pipeline parallelism needs virtual stages",
     .message = "expert-parallel overlap is on with pipeline parallelism and no virtual stages",
     .remedy = "set virtual_pipeline_model_parallel_size",
     .consequence = class_stops,
     .source = "TC:3002-3046, BCO:478-518",
     .fields = {"overlap_moe_expert_parallel_comm", "pipeline_model_parallel_size",
                "virtual_pipeline_model_parallel_size"},
     .when = {G::ep_overlap},
     .broken =
         [](const Facts& f) {
           return f.config.pipeline_model_parallel_size > 1 &&
                  !f.config.virtual_pipeline_model_parallel_size;
         }},
    {.id = "ep-overlap-dispatcher",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap needs the dispatcher alltoall or flex",
     .message = "expert-parallel overlap is on with the allgather dispatcher",
     .remedy = "use alltoall or flex",
     .consequence = class_stops,
     .source = "TC:3002-3046, BCO:478-518",
     .fields = {"overlap_moe_expert_parallel_comm", "moe_token_dispatcher_type"},
     .when = {G::ep_overlap},
     .broken = [](const Facts& f) { return f.allgather(); }},
    {.id = "ep-overlap-no-shared-overlap",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap goes without moe_shared_expert_overlap",
     .message = "expert-parallel overlap is on with overlapping shared experts",
     .remedy = "turn moe_shared_expert_overlap off",
     .consequence = class_stops,
     .source = "TC:3002-3046, BCO:478-518",
     .fields = {"overlap_moe_expert_parallel_comm", "moe_shared_expert_overlap"},
     .when = {G::ep_overlap},
     .broken = [](const Facts& f) { return f.config.moe_shared_expert_overlap; }},
    {.id = "ep-overlap-torch-2.6",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap needs torch 2.6.0",
     .message = "expert-parallel overlap is on",
     .remedy = "use torch 2.6.0 or later",
     .consequence = class_stops,
     .source = "TC:3002-3046, BCO:478-518",
     .fields = {"overlap_moe_expert_parallel_comm"},
     .when = {G::ep_overlap},
     .broken = [](const Facts&) { return true; },
     .library = Library::torch,
     .at_least = {2, 6, 0}},
    {.id = "ep-overlap-precision",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap needs bf16 or fp16",
     .message = "expert-parallel overlap is on with neither bf16 nor fp16",
     .remedy = "set bf16",
     .consequence = class_stops,
     .source = "TC:3002-3046, BCO:478-518",
     .fields = {"overlap_moe_expert_parallel_comm", "bf16", "fp16", "params_dtype"},
     .when = {G::ep_overlap},
     .broken =
         [](const Facts& f) {
           return !f.config.bf16 && !f.config.fp16 && f.config.params_dtype != ParamsDtype::bf16 &&
                  f.config.params_dtype != ParamsDtype::fp16;
         }},
    {.id = "ep-overlap-mtp",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap allows one layer of multi-token prediction",
     .message = "expert-parallel overlap is on with several layers of multi-token prediction",
     .remedy = "set mtp_num_layers to 1 or unset it",
     .consequence = class_stops,
     .source = "TC:3002-3046, BCO:478-518",
     .fields = {"overlap_moe_expert_parallel_comm", "mtp_num_layers"},
     .when = {G::ep_overlap},
     .broken = [](const Facts& f) { return f.config.mtp_num_layers.value_or(0) > 1; }},
    {.id = "ep-overlap-te-scope",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap under transformer_engine goes without moe and mlp",
     .message = "moe or mlp is captured while its communication is overlapped",
     .remedy = "capture attn, moe_router and moe_preprocess only",
     .consequence = class_stops,
     .source = "TC:3063-3071",
     .fields = {"overlap_moe_expert_parallel_comm", "cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::ep_overlap, G::te},
     .broken = [](const Facts& f) { return f.in_scope(M::moe) || f.in_scope(M::mlp); }},
    {.id = "ep-overlap-no-whole-layer",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::replay,
     .statement = "expert-parallel overlap under transformer_engine does not capture whole layers",
     .message = "the whole layer is captured while its communication is overlapped",
     .remedy = "name attn, moe_router and moe_preprocess",
     .consequence = "the replay stops with an assertion",
     .source = "TL:1366-1375",
     .fields = {"overlap_moe_expert_parallel_comm", "cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::ep_overlap, G::te, G::whole_layer},
     .broken = [](const Facts&) { return true; }},
    {.id = "delay-wgrad-te-2.10",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "delay_wgrad_compute under transformer_engine needs Transformer Engine 2.10.0",
     .message = "weight gradients are delayed with graphs of Transformer Engine",
     .remedy = "use Transformer Engine 2.10.0 or later",
     .consequence = class_stops,
     .source = "TC:3078-3082",
     .fields = {"delay_wgrad_compute", "cuda_graph_impl"},
     .when = {G::delay_wgrad, G::te},
     .broken = [](const Facts&) { return true; },
     .library = Library::transformer_engine,
     .at_least = {2, 10, 0}},
    {.id = "delay-wgrad-transformer-impl",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement = "delay_wgrad_compute needs transformer_impl transformer_engine",
     .message = "weight gradients are delayed without the layers of Transformer Engine",
     .remedy = "use transformer_impl transformer_engine",
     .consequence = validation_stops,
     .source = "AR:1903-1905",
     .fields = {"delay_wgrad_compute", "transformer_impl"},
     .when = {G::delay_wgrad},
     .broken =
         [](const Facts& f) {
           return f.config.transformer_impl != TransformerImpl::transformer_engine;
         }},
    {.id = "delay-wgrad-overlap-grad-te-2.8",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement = "delay_wgrad_compute with overlap_grad_reduce needs Transformer Engine 2.8.0",
     .message = "weight gradients are delayed while their reduction overlaps",
     .remedy = "use Transformer Engine 2.8.0 or later",
     .consequence = validation_stops,
     .source = "AR:1906-1909",
     .fields = {"delay_wgrad_compute", "overlap_grad_reduce"},
     .when = {G::delay_wgrad},
     .broken = [](const Facts& f) { return f.config.overlap_grad_reduce; },
     .library = Library::transformer_engine,
     .at_least = {2, 8, 0}},
    {.id = "delay-wgrad-overlap-grad-te-2.7",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .statement = "delay_wgrad_compute with overlap_grad_reduce needs Transformer Engine 2.7.0",
     .message = "weight gradients are delayed while their reduction overlaps",
     .remedy = "use Transformer Engine 2.7.0 or later",
     .consequence = validation_stops,
     .source = "BCO:521-525",
     .fields = {"delay_wgrad_compute", "overlap_grad_reduce"},
     .when = {G::delay_wgrad},
     .broken = [](const Facts& f) { return f.config.overlap_grad_reduce; },
     .library = Library::transformer_engine,
     .at_least = {2, 7, 0}},
    {.id = "delay-wgrad-nofusion-te-2.7",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement = "delay_wgrad_compute without gradient_accumulation_fusion needs Transformer "
                  "Engine 2.7.0 (Bridge asks it with the fusion: one of the two is wrong)",
     .message = "weight gradients are delayed without gradient accumulation fusion",
     .remedy = "use Transformer Engine 2.7.0 or later",
     .consequence = validation_stops,
     .source = "AR:1929-1933",
     .fields = {"delay_wgrad_compute", "gradient_accumulation_fusion"},
     .when = {G::delay_wgrad},
     .broken = [](const Facts& f) { return !f.config.gradient_accumulation_fusion; },
     .library = Library::transformer_engine,
     .at_least = {2, 7, 0}},
    {.id = "delay-wgrad-fusion-te-2.7",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .statement = "delay_wgrad_compute with gradient_accumulation_fusion needs Transformer Engine "
                  "2.7.0 (Megatron-LM asks it without the fusion: one of the two is wrong)",
     .message = "weight gradients are delayed with gradient accumulation fusion",
     .remedy = "use Transformer Engine 2.7.0 or later",
     .consequence = validation_stops,
     .source = "BCO:526-530",
     .fields = {"delay_wgrad_compute", "gradient_accumulation_fusion"},
     .when = {G::delay_wgrad},
     .broken = [](const Facts& f) { return f.config.gradient_accumulation_fusion; },
     .library = Library::transformer_engine,
     .at_least = {2, 7, 0}},
    graph_needs_te_2_12,
    in_bridge(graph_needs_te_2_12),
    {.id = "delay-wgrad-graph-te-2.12",
     .subject = subject,
     .rulesets = seeds,
     .layer = Layer::bridge,
     .statement = "delayed weight gradients with attn or moe_router captured need Transformer "
                  "Engine 2.12.0",
     .message = "delayed weight gradients run inside a captured region (attn or moe_router)",
     .remedy = "use Transformer Engine 2.12.0 or later, or turn delay_wgrad_compute off",
     .consequence = "older versions leave the weight gradient out of the graph: stale gradients",
     .source = "BCO:545-548",
     .fields = {"delay_wgrad_compute", "cuda_graph_scope"},
     .when = {G::delay_wgrad, G::graphs},
     .broken = seed_wgrad_in_graph,
     .library = Library::transformer_engine,
     .at_least = {2, 12, 0}},
    graph_needs_fusion,
    in_bridge(graph_needs_fusion),
    {.id = "delay-wgrad-graph-ga-fusion",
     .subject = subject,
     .rulesets = seeds,
     .layer = Layer::bridge,
     .statement = "delayed weight gradients with attn or moe_router captured need "
                  "gradient_accumulation_fusion",
     .message = "delayed weight gradients run inside a captured region (attn or moe_router)",
     .remedy = "set gradient_accumulation_fusion, or turn delay_wgrad_compute off",
     .consequence = "the accumulated gradient is lost between replays",
     .source = "BCO:549-553",
     .fields = {"delay_wgrad_compute", "gradient_accumulation_fusion", "cuda_graph_scope"},
     .when = {G::delay_wgrad, G::graphs},
     .broken =
         [](const Facts& f) {
           return !f.config.gradient_accumulation_fusion && seed_wgrad_in_graph(f);
         }},
    graph_needs_no_attention_bias,
    in_bridge(graph_needs_no_attention_bias),
    {.id = "delay-wgrad-graph-no-attn-bias",
     .subject = subject,
     .rulesets = seeds,
     .layer = Layer::bridge,
     .statement = "delayed weight gradients with attn or moe_router captured go without attention "
                  "bias",
     .message = "delayed weight gradients run inside a captured region of a model with attention "
                "bias",
     .remedy = "set add_bias_linear and add_qkv_bias to false, or turn delay_wgrad_compute off",
     .consequence = "the gradient of the bias is computed outside the graph from stale inputs",
     .source = "BCO:554-557",
     .fields = {"delay_wgrad_compute", "add_bias_linear", "add_qkv_bias", "cuda_graph_scope"},
     .when = {G::delay_wgrad, G::graphs},
     .broken = [](const Facts& f) { return any_attention_bias(f) && seed_wgrad_in_graph(f); }},
    {.id = "te-wgrad-one-layer-chunks",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "an order with weight-gradient entries has one layer a chunk",
     .message = "weight-gradient graphs are captured for chunks of several layers",
     .remedy = "let Megatron-Core expand the order by layers",
     .consequence = "the capture stops with an assertion",
     .source = "TGR:241-254",
     .fields = {"delay_wgrad_compute"}},
    {.id = "te-wgrad-pairs",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "every backward of a module with delayed weight gradients has its entry -c-0.5",
     .message = "weight-gradient entries and backward entries do not pair up",
     .remedy = "let Megatron-Core make the order",
     .consequence = "the capture stops with an assertion",
     .source = "TGR:742-788",
     .fields = {"delay_wgrad_compute"}},
    {.id = "bwd-dw-transformer-only",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "graphs with expert-parallel overlap capture transformer layers only",
     .message = "a Mamba layer is captured while expert-parallel communication is overlapped",
     .remedy = "remove mamba from the scope",
     .consequence = "the schedule stops with an assertion",
     .source = "MCU:394-396",
     .fields = {"overlap_moe_expert_parallel_comm", "is_hybrid_model", "cuda_graph_scope"},
     .when = {G::ep_overlap, G::te},
     .broken = [](const Facts& f) { return f.config.is_hybrid_model && f.captured(M::mamba); }},
};

}  // namespace

std::span<const Rule> delayed_wgrad_rules() {
  return rows;
}

}  // namespace cgconform::matrix
