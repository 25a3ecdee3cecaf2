#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
using M = CudaGraphModule;
using O = OffloadModule;
constexpr Subject subject = Subject::offloading;
constexpr OffloadModules expert_modules{O::expert_fc1, O::moe_act, O::fused_group_mlp};

/// An offloaded tensor is produced inside a region that a per-layer graph captures.
bool offloads_inside_graph(const Facts& f) {
  const OffloadModules offloaded = f.config.offload_modules;
  const OffloadModules attention{O::attn_norm, O::qkv_linear, O::core_attn, O::attn_proj};
  if (f.captured(M::attn) && offloaded.contains_any(attention)) return true;
  const bool feed_forward = f.captured(M::mlp) || f.captured(M::moe) || f.in_scope(M::moe_router);
  if (feed_forward && offloaded.contains(O::mlp_norm)) return true;
  return f.captured(M::moe) && offloaded.contains_any(expert_modules);
}

constexpr Rule rows[] = {
    {.id = "cpu-offload-per-layer",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "cpu_offloading goes with impl none or full_iteration",
     .message = "CPU offloading is on together with per-layer graphs",
     .remedy = "turn cpu_offloading off, or capture the full iteration",
     .consequence = "offload copies run on the host's schedule and are lost or stale at replay",
     .source = "TC:2800-2801",
     .fields = {"cpu_offloading", "cuda_graph_impl"},
     .when = {G::cpu_offloading, G::per_layer},
     .broken = [](const Facts&) { return true; }},
    {.id = "cpu-offload-per-layer",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::cgconform, Ruleset::mcore_0_17},
     .layer = Layer::config,
     .statement = "cpu_offloading goes with impl none",
     .message = "CPU offloading is on together with CUDA graphs",
     .remedy = "turn cpu_offloading off, or the graphs",
     .consequence = "offload copies run on the host's schedule and are lost or stale at replay",
     .source = "TC:1907 (8fd390d1fb)",
     .fields = {"cpu_offloading", "cuda_graph_impl"},
     .when = {G::cpu_offloading, G::graphs},
     .broken = [](const Facts&) { return true; }},
    {.id = "cpu-offload-no-pp",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "cpu_offloading needs pipeline_model_parallel_size 1",
     .message = "CPU offloading is on with pipeline parallelism",
     .remedy = "set pipeline_model_parallel_size to 1 or turn cpu_offloading off",
     .consequence = "the configuration class stops with an error",
     .source = "TC:1891-1894",
     .fields = {"cpu_offloading", "pipeline_model_parallel_size"},
     .when = {G::cpu_offloading},
     .broken = [](const Facts& f) { return f.config.pipeline_model_parallel_size > 1; }},
    {.id = "cpu-offload-no-recompute",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "cpu_offloading goes without recompute",
     .message = "CPU offloading is on with recompute",
     .remedy = "unset recompute_granularity or turn cpu_offloading off",
     .consequence = "the configuration class stops with an error",
     .source = "TC:1896-1899",
     .fields = {"cpu_offloading", "recompute_granularity"},
     .when = {G::cpu_offloading},
     .broken =
         [](const Facts& f) {
           return f.config.recompute_granularity != RecomputeGranularity::none;
         }},
    {.id = "cpu-offload-layer-range",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "0 <= cpu_offloading_num_layers < num_layers",
     .message = "cpu_offloading_num_layers is not a number of layers of this model",
     .remedy = "set it between 0 and num_layers - 1",
     .consequence = "the configuration class stops with an error",
     .source = "TC:1884-1889",
     .fields = {"cpu_offloading", "cpu_offloading_num_layers", "num_layers"},
     .when = {G::cpu_offloading},
     .broken =
         [](const Facts& f) {
           return f.config.cpu_offloading_num_layers < 0 ||
                  f.config.cpu_offloading_num_layers >= f.config.num_layers;
         }},
    {.id = "bridge-autocast-spec-local",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::build,
     .statement = "the autocast layer of Transformer Engine under per-layer local graphs goes "
                  "without cpu_offloading and recompute",
     .message = "the autocast layer is captured with offloading or recompute on",
     .remedy = "turn cpu_offloading and recompute off",
     .consequence = "the layer's constructor stops with an assertion",
     .source = "BSP:230-232",
     .fields = {"use_transformer_engine_full_layer_spec", "cuda_graph_impl", "cpu_offloading",
                "recompute_granularity"},
     .when = {G::local_per_layer},
     .broken =
         [](const Facts& f) {
           return f.config.use_transformer_engine_full_layer_spec &&
                  (f.config.cpu_offloading ||
                   f.config.recompute_granularity != RecomputeGranularity::none);
         }},
    {.id = "fgao-no-cpu-offload",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "fine_grained_activation_offloading goes without cpu_offloading",
     .message = "fine-grained activation offloading and CPU offloading are both on",
     .remedy = "keep one of them",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2127-2130",
     .fields = {"fine_grained_activation_offloading", "cpu_offloading"},
     .when = {G::fgao, G::cpu_offloading},
     .broken = [](const Facts&) { return true; }},
    {.id = "fgao-local-modules",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "under local only expert_fc1, moe_act and fused_group_mlp are offloaded",
     .message = "local graphs are combined with offloading of other modules than experts",
     .remedy = "keep expert_fc1, moe_act and fused_group_mlp in offload_modules",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2931-2939",
     .fields = {"offload_modules", "cuda_graph_impl", "fine_grained_activation_offloading"},
     .when = {G::fgao, G::local},
     .broken =
         [](const Facts& f) { return !f.config.offload_modules.is_subset_of(expert_modules); }},
    {.id = "fgao-local-not-whole-layer",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "under local with offloading the scope is not empty and does not name moe",
     .message = "local captures the experts whose activations are offloaded",
     .remedy = "name a scope without moe",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2940-2959",
     .fields = {"cuda_graph_scope", "cuda_graph_impl", "fine_grained_activation_offloading"},
     .when = {G::fgao, G::local},
     .broken =
         [](const Facts& f) { return f.config.cuda_graph_scope.empty() || f.in_scope(M::moe); }},
    {.id = "fgao-no-moe-scope",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "offloading with graphs does not go with the scope moe",
     .message = "the scope moe captures modules whose activations are offloaded",
     .remedy = "remove moe from the scope",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2960-2962",
     .fields = {"cuda_graph_scope", "fine_grained_activation_offloading"},
     .when = {G::fgao, G::graphs},
     .broken = [](const Facts& f) { return f.in_scope(M::moe); }},
    {.id = "fgao-warmup-positive",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "offloading with graphs needs cuda_graph_warmup_steps > 0",
     .message = "fine-grained activation offloading has no warm-up step before capture",
     .remedy = "set cuda_graph_warmup_steps to 1 or more",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2963-2966",
     .fields = {"cuda_graph_warmup_steps", "fine_grained_activation_offloading"},
     .when = {G::fgao, G::graphs},
     .broken = [](const Facts& f) { return f.config.cuda_graph_warmup_steps <= 0; }},
    {.id = "fgao-full-iter-inflight",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "offloading with full_iteration needs "
                  "fine_grained_offloading_max_inflight_offloads >= 0",
     .message = "the number of offloads in flight is not bounded",
     .remedy = "set fine_grained_offloading_max_inflight_offloads to 0 or more",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2967-2975",
     .fields = {"fine_grained_offloading_max_inflight_offloads", "cuda_graph_impl",
                "fine_grained_activation_offloading"},
     .when = {G::fgao, G::full_iteration},
     .broken =
         [](const Facts& f) {
           return f.config.fine_grained_offloading_max_inflight_offloads.value_or(-1) < 0;
         }},
    {.id = "fgao-attn-norm-off",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::auto_fix,
     .statement = "offloading of attn_norm is turned off where attn is captured",
     .message = "attn_norm is no longer offloaded because attn is captured",
     .remedy = "remove attn_norm from offload_modules",
     .consequence = "less memory is saved than asked for",
     .source = "TL:1565-1572",
     .fields = {"offload_modules", "cuda_graph_scope"},
     .when = {G::fgao, G::per_layer},
     .broken =
         [](const Facts& f) {
           return f.in_scope(M::attn) && f.config.offload_modules.contains(O::attn_norm);
         },
     .repair = [](TrainingConfig& c) { c.offload_modules.erase(O::attn_norm); }},
    {.id = "fgao-mlp-norm-off",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::auto_fix,
     .statement = "offloading of mlp_norm is turned off where a graph begins or ends beside it",
     .message = "mlp_norm is no longer offloaded because the captured scope begins or ends there",
     .remedy = "remove mlp_norm from offload_modules",
     .consequence = "less memory is saved than asked for",
     .source = "TL:1573-1598",
     .fields = {"offload_modules", "cuda_graph_scope", "num_moe_experts"},
     .when = {G::fgao, G::per_layer},
     .broken =
         [](const Facts& f) {
           if (!f.config.offload_modules.contains(O::mlp_norm)) return false;
           if (f.moe_model()) return f.in_scope(M::attn) || f.in_scope(M::moe_router);
           return f.in_scope(M::attn) != f.in_scope(M::mlp);
         },
     .repair = [](TrainingConfig& c) { c.offload_modules.erase(O::mlp_norm); }},
    {.id = "fgao-in-graph-versions",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "offloading inside a captured region needs Transformer Engine 2.14.0",
     .message = "an offloaded module lies inside a captured region",
     .remedy = "use Transformer Engine 2.14.0 or later, or do not offload captured modules",
     .consequence = "the layer's constructor stops with an assertion",
     .source = "TL:1599-1617",
     .fields = {"offload_modules", "cuda_graph_scope"},
     .when = {G::fgao, G::te},
     .broken = offloads_inside_graph,
     .library = Library::transformer_engine,
     .at_least = {2, 14, 0}},
    {.id = "fgao-in-graph-torch",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "offloading inside a captured region needs torch 2.9.0",
     .message = "an offloaded module lies inside a captured region",
     .remedy = "use torch 2.9.0 or later, or do not offload captured modules",
     .consequence = "the layer's constructor stops with an assertion",
     .source = "TL:1599-1617",
     .fields = {"offload_modules", "cuda_graph_scope"},
     .when = {G::fgao, G::te},
     .broken = offloads_inside_graph,
     .library = Library::torch,
     .at_least = {2, 9, 0}},
    {.id = "fgao-env",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement = "offloading with Transformer Engine 2.10 needs NVTE_CPU_OFFLOAD_V1=1 and "
                  "transformer_impl transformer_engine",
     .message = "fine-grained activation offloading lacks NVTE_CPU_OFFLOAD_V1=1 or the Transformer "
                "Engine layers",
     .remedy = "export NVTE_CPU_OFFLOAD_V1=1 and use transformer_impl transformer_engine",
     .consequence = "argument validation stops with an assertion",
     .source = "AR:1935-1940",
     .fields = {"fine_grained_activation_offloading", "transformer_impl"},
     .when = {G::fgao},
     .broken =
         [](const Facts& f) {
           const bool new_offload =
               f.platform.transformer_engine && *f.platform.transformer_engine >= Version{2, 10, 0};
           return new_offload && (!f.platform.nvte_cpu_offload_v1 ||
                                  f.config.transformer_impl != TransformerImpl::transformer_engine);
         }},
};

}  // namespace

std::span<const Rule> offloading_rules() {
  return rows;
}

}  // namespace cgconform::matrix
