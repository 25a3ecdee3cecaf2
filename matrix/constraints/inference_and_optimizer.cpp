#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
using Backend = MoeFlexDispatcherBackend;
constexpr Subject subject = Subject::inference_and_optimizer;
constexpr std::string_view validation_stops = "argument validation stops with an assertion";

constexpr Rule rows[] = {
    {.id = "infer-num-graphs",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement = "local needs inference_dynamic_batching_num_cuda_graphs to be positive or -1",
     .message = "the number of inference graphs is neither positive nor -1",
     .remedy = "set inference_dynamic_batching_num_cuda_graphs to -1 or a positive number",
     .consequence = validation_stops,
     .source = "AR:1247-1250",
     .fields = {"inference_dynamic_batching_num_cuda_graphs", "cuda_graph_impl"},
     .when = {G::local},
     .broken =
         [](const Facts& f) {
           const int graphs = f.config.inference_dynamic_batching_num_cuda_graphs;
           return graphs <= 0 && graphs != -1;
         }},
    {.id = "infer-static-flash-decode",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .statement = "static-batching decode with local needs flash_decode",
     .message = "decode graphs run without flash_decode",
     .remedy = "set flash_decode",
     .consequence = "the decode step stops with an assertion",
     .source = "ATT:1447-1452",
     .fields = {"cuda_graph_impl"}},
    {.id = "infer-ep-padding",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .statement = "inference with local and expert parallelism pads experts, except with "
                  "inference_optimized layers, which must not",
     .message = "experts are padded, or not, against what the layers need",
     .remedy = "set moe_pad_experts_for_cuda_graph_inference accordingly",
     .consequence = "the text generation controller stops with an assertion",
     .source = "TGC:277-285, TGC:781-786",
     .fields = {"cuda_graph_impl", "expert_model_parallel_size", "transformer_impl"}},
    {.id = "infer-max-tokens",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "cuda_graph_max_tokens >= max_requests x (num_speculative_tokens + 1)",
     .message = "the largest inference graph is smaller than the largest decode batch",
     .remedy = "raise cuda_graph_max_tokens",
     .consequence = "the inference context stops with an assertion",
     .source = "BDU:512-515",
     .fields = {"cuda_graph_max_tokens", "inference_max_requests", "num_speculative_tokens"},
     .when = {G::local},
     .broken =
         [](const Facts& f) {
           if (!f.config.cuda_graph_max_tokens || !f.config.inference_max_requests) return false;
           const std::int64_t needed = std::int64_t{*f.config.inference_max_requests} *
                                       (std::int64_t{f.config.num_speculative_tokens} + 1);
           return *f.config.cuda_graph_max_tokens < needed;
         }},
    {.id = "infer-layer-needs-empty-modules",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "layer-level inference replays only with an empty scope",
     .message = "inference runs eager with a scope",
     .remedy = "use an empty scope for inference",
     .consequence = "no speed-up",
     .source = "TL:1524-1542, MA:230-240",
     .fields = {"inference_cuda_graph_scope", "cuda_graph_scope"}},
    {.id = "infer-none-skips",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement =
         "without local or with the inference scope none, nothing is captured for inference",
     .message = "inference runs eager",
     .remedy = "none needed",
     .consequence = "none",
     .source = "DE:520-524",
     .fields = {"inference_cuda_graph_scope", "cuda_graph_impl"}},
    {.id = "rl-graph-flags",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement =
         "rl_persist_cuda_graphs and rl_training_cuda_graphs need an impl; KV offload needs "
         "rl_persist_cuda_graphs",
     .message = "the graph flags of reinforcement learning do not go together",
     .remedy = "set cuda_graph_impl, and rl_persist_cuda_graphs where the KV cache is offloaded",
     .consequence = validation_stops,
     .source = "AR:480-513",
     .fields = {"rl_persist_cuda_graphs", "rl_training_cuda_graphs", "cuda_graph_impl",
                "rl_offload_kv_cache_during_training"},
     .broken =
         [](const Facts& f) {
           const bool flags = f.config.rl_persist_cuda_graphs || f.config.rl_training_cuda_graphs;
           return (flags && !f.graphs()) || (f.config.rl_offload_kv_cache_during_training &&
                                             !f.config.rl_persist_cuda_graphs);
         }},
    {.id = "rl-forces-local",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "inference of reinforcement learning sets local with an empty scope, and MoE "
                  "training then mamba, attn, moe_router and moe_preprocess",
     .message = "the scope of the user is replaced",
     .remedy = "none",
     .consequence = "another scope is captured than was asked for",
     .source = "RL:2893-2899, RL:2955-2975",
     .fields = {"cuda_graph_scope", "cuda_graph_impl"}},
    {.id = "optimizer-capturable",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::mcore_0_20, Ruleset::megatron_lm_0_20,
                  Ruleset::bridge_0_6},
     .layer = Layer::build,
     .statement = "optimizer_cuda_graph needs the optimizer adam, which is built capturable",
     .message = "the step of an optimizer other than adam is captured",
     .remedy = "use adam, or turn optimizer_cuda_graph off",
     .consequence = "the step reads its counter on the host inside the capture",
     .source = "OI:546-554, OCG:26-28",
     .fields = {"optimizer_cuda_graph", "optimizer"},
     .broken =
         [](const Facts& f) {
           return f.config.optimizer_cuda_graph && f.config.optimizer != OptimizerName::adam;
         }},
    {.id = "paged-stash-needs-capacity",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "moe_paged_stash needs moe_expert_rank_capacity_factor, no cpu_offloading and no "
                  "offloaded expert modules",
     .message = "the paged stash lacks a capacity, or is combined with offloading",
     .remedy = "set moe_expert_rank_capacity_factor and do not offload expert modules",
     .consequence = "the configuration class stops with an error",
     .source = "TC:2210-2227",
     .fields = {"moe_paged_stash", "moe_expert_rank_capacity_factor", "cpu_offloading",
                "offload_modules"},
     .broken =
         [](const Facts& f) {
           return f.config.moe_paged_stash &&
                  (!f.config.moe_expert_rank_capacity_factor || f.config.cpu_offloading ||
                   f.config.offload_modules.contains_any({OffloadModule::expert_fc1,
                                                          OffloadModule::moe_act,
                                                          OffloadModule::fused_group_mlp}));
         }},
    {.id = "rank-capacity-backend",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement =
         "moe_expert_rank_capacity_factor needs the flex dispatcher with hybridep (and the "
         "op fuser or grouped tensors) or ncclep",
     .message = "a capacity for each rank is set with a dispatcher that cannot keep it",
     .remedy = "use the flex dispatcher with hybridep and use_transformer_engine_op_fuser, or with "
               "ncclep",
     .consequence = "the configuration class stops with an error",
     .source = "TC:1868-1882",
     .fields = {"moe_expert_rank_capacity_factor", "moe_token_dispatcher_type",
                "moe_flex_dispatcher_backend", "use_transformer_engine_op_fuser"},
     .broken =
         [](const Facts& f) {
           if (!f.config.moe_expert_rank_capacity_factor) return false;
           if (f.flex_backend(Backend::ncclep)) return false;
           return !(f.flex_backend(Backend::hybridep) && f.config.use_transformer_engine_op_fuser);
         }},
    {.id = "paged-stash-rerun",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "an overflow deletes the graph, runs the step again eagerly, then captures again",
     .message = "the stash overflowed",
     .remedy = "raise the capacity",
     .consequence = "a slow step",
     .source = "PS:1196-1212, PS:1214-1228",
     .fields = {"moe_paged_stash"}},
    {.id = "gtp-node-priority",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement = "GTP with graphs from sm_100 needs CUDA_GRAPHS_USE_NODE_PRIORITY=1",
     .message = "GTP is captured without node priorities",
     .remedy = "export CUDA_GRAPHS_USE_NODE_PRIORITY=1",
     .consequence = validation_stops,
     .source = "AR:1539-1544",
     .fields = {"gtp_weight_remat_size", "cuda_graph_impl"},
     .when = {G::graphs},
     .broken =
         [](const Facts& f) {
           return f.config.gtp_weight_remat_size > 1 && f.platform.compute_capability >= 100 &&
                  !f.platform.cuda_graphs_use_node_priority;
         }},
    {.id = "max-connections-warn",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "GTP under local wants CUDA_DEVICE_MAX_CONNECTIONS of at least 16",
     .message = "CUDA_DEVICE_MAX_CONNECTIONS is unset, no integer or less than 16",
     .remedy = "export CUDA_DEVICE_MAX_CONNECTIONS=16 or more",
     .consequence = "streams of a graph share hardware queues and wait for each other",
     .source = "CG:120-142",
     .fields = {"gtp_weight_remat_size", "cuda_graph_impl"},
     .when = {G::local_per_layer},
     .broken =
         [](const Facts& f) {
           return f.config.gtp_weight_remat_size > 1 &&
                  f.platform.cuda_device_max_connections.value_or(0) < 16;
         }},
    {.id = "stream-pool-distinct",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "the three streams of a runner are distinct",
     .message = "streams of the pool coincide",
     .remedy = "none",
     .consequence = "the constructor stops with an assertion",
     .source = "CG:144-147"},
    {.id = "freeze-gc",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "garbage collection is frozen during capture before torch 2.9, unless "
                  "CUDA_GRAPH_CAPTURE_FREEZE_GC is 0",
     .message = "garbage collection is frozen",
     .remedy = "none needed",
     .consequence = "a collection during capture may free a tensor of the graph",
     .source = "CG:231-241, TGR:86-102"},
    {.id = "stale-capture-stream",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement =
         "torch can override a stale capture stream; where it cannot, a warning is printed",
     .message = "torch lacks set_override_stale_capture_stream",
     .remedy = "use a newer torch",
     .consequence = "autograd may run a node on a stream that is no longer captured",
     .source = "FCG:210-218"},
    {.id = "te-delete-needs-created",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::replay,
     .statement = "graphs are deleted only after they were created",
     .message = "graphs are deleted that were never created",
     .remedy = "check graphs_created first",
     .consequence = "the clean-up stops with an assertion",
     .source = "CG:2864"},
    {.id = "te-reset-2.10",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "from Transformer Engine 2.10 graphs are reset explicitly",
     .message = "older versions only drop references",
     .remedy = "none needed",
     .consequence = "memory is freed late",
     .source = "CG:2866-2877"},
    {.id = "bridge-cleanup-order",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::cgconform, Ruleset::bridge_0_6},
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "graphs go before process groups: training, validation, optimizer, then those of "
                  "Transformer Engine",
     .message = "graphs are deleted before communicators",
     .remedy = "none needed",
     .consequence = "a communicator that a graph uses hangs when it is destroyed",
     .source = "BTR:1665-1704, BTR:779, BTR:1555"},
    {.id = "mlm-cleanup",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "Megatron-LM deletes graphs of Transformer Engine and of the optimizer only",
     .message = "other graphs are left to the interpreter",
     .remedy = "none",
     .consequence = "a communicator may be destroyed before its graph",
     .source = "TR:5008-5014"},
    {.id = "bridge-lora-regather",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "with graphs, LoRA gathers sequence-parallel inputs the plain way",
     .message = "the regather of LoRA falls back",
     .remedy = "none needed",
     .consequence = "none",
     .source = "BPE:1138-1140"},
};

}  // namespace

std::span<const Rule> inference_rules() {
  return rows;
}

}  // namespace cgconform::matrix
