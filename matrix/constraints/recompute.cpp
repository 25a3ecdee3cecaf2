#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
using M = CudaGraphModule;
using R = RecomputeModule;
constexpr Subject subject = Subject::recompute;
constexpr Rulesets mcore_and_cells{Ruleset::cgconform, Ruleset::mcore_0_17, Ruleset::mcore_0_20,
                                   Ruleset::megatron_lm_0_20, Ruleset::bridge_0_6};
constexpr std::string_view class_stops = "the configuration class stops with an error";
constexpr std::string_view random_consequence =
    "the recomputed forward draws other random numbers than the captured one";

constexpr Rule rows[] = {
    {.id = "recompute-full-needs-full-iteration",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "with graphs, full recompute needs full_iteration",
     .message = "whole layers are recomputed while graphs capture parts of them",
     .remedy = "use recompute_granularity selective, or capture the full iteration",
     .consequence = "the recomputed layer would replay a graph inside its backward",
     .source = "TC:2854-2858",
     .fields = {"recompute_granularity", "cuda_graph_impl"},
     .when = {G::per_layer, G::full_recompute},
     .broken = [](const Facts&) { return true; }},
    {.id = "recompute-full-needs-full-iteration",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::cgconform, Ruleset::mcore_0_17},
     .layer = Layer::config,
     .statement = "with graphs, full recompute needs the scope full_iteration and nothing else",
     .message = "whole layers are recomputed while graphs capture parts of them",
     .remedy = "use recompute_granularity selective, or local with the scope full_iteration",
     .consequence = "the recomputed layer would replay a graph inside its backward",
     .source = "TC:2001-2005 (8fd390d1fb)",
     .fields = {"recompute_granularity", "cuda_graph_impl", "cuda_graph_scope"},
     .when = {G::graphs, G::full_recompute},
     .broken =
         [](const Facts& f) {
           return f.config.cuda_graph_scope != CudaGraphScope{M::full_iteration};
         }},
    {.id = "recompute-granularity-enum",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "recompute_granularity is unset, full or selective",
     .message = "the granularity is unknown; the reader of the input refuses it",
     .remedy = "write full or selective",
     .consequence = class_stops,
     .source = "TC:1901-1906",
     .fields = {"recompute_granularity"}},
    {.id = "recompute-full-needs-method",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .statement = "full recompute needs recompute_method block or uniform",
     .message = "full recompute has no recompute_method",
     .remedy = "set recompute_method to block or uniform",
     .consequence = class_stops,
     .source = "TC:1908-1925",
     .fields = {"recompute_granularity", "recompute_method"},
     .when = {G::full_recompute},
     .broken = [](const Facts& f) { return f.config.recompute_method == RecomputeMethod::none; }},
    {.id = "recompute-full-needs-num-layers",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .statement = "full recompute needs recompute_num_layers",
     .message = "full recompute has no recompute_num_layers",
     .remedy = "set recompute_num_layers",
     .consequence = class_stops,
     .source = "TC:1908-1925",
     .fields = {"recompute_granularity", "recompute_num_layers"},
     .when = {G::full_recompute},
     .broken = [](const Facts& f) { return !f.config.recompute_num_layers; }},
    {.id = "recompute-selective-no-num-layers",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "selective recompute goes without recompute_num_layers",
     .message = "selective recompute is given recompute_num_layers",
     .remedy = "unset recompute_num_layers",
     .consequence = class_stops,
     .source = "TC:1926-1932",
     .fields = {"recompute_granularity", "recompute_num_layers"},
     .when = {G::selective},
     .broken = [](const Facts& f) { return f.config.recompute_num_layers.has_value(); }},
    {.id = "recompute-modules-known",
     .subject = subject,
     .rulesets = {Ruleset::mcore_0_17},
     .layer = Layer::config,
     .statement = "recompute_modules holds modules that release 0.17 knows",
     .message = "recompute_modules names a module that release 0.17 does not know",
     .remedy = "remove gdn_norm_out, gdp_in_proj, gdp_qkv and mhc",
     .consequence = class_stops,
     .source = "TC:1940-1962",
     .fields = {"recompute_modules"},
     .when = {G::selective},
     .broken =
         [](const Facts& f) {
           return f.recompute_modules().contains_any(
               {R::gdn_norm_out, R::gdp_in_proj, R::gdp_qkv, R::mhc});
         }},
    {.id = "recompute-modules-known",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "recompute_modules holds known modules; absent means core_attn",
     .message = "a module of recompute_modules is unknown; the reader of the input refuses it",
     .remedy = "write known names",
     .consequence = class_stops,
     .source = "TC:1940-1962",
     .fields = {"recompute_modules"}},
    {.id = "recompute-moe-act-grouped-gemm",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "recompute of moe_act needs moe_grouped_gemm",
     .message = "moe_act is recomputed without the grouped GEMM",
     .remedy = "set moe_grouped_gemm, or remove moe_act",
     .consequence = class_stops,
     .source = "TC:1964-1981, TC:2028-2035",
     .fields = {"recompute_modules", "moe_grouped_gemm"},
     .when = {G::selective},
     .broken =
         [](const Facts& f) { return f.recomputes(R::moe_act) && !f.config.moe_grouped_gemm; }},
    {.id = "recompute-mla-needs-mla",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "recompute of mla_up_proj needs multi_latent_attention",
     .message = "mla_up_proj is recomputed in a model without latent attention",
     .remedy = "remove mla_up_proj",
     .consequence = class_stops,
     .source = "TC:1964-1981, TC:2028-2035",
     .fields = {"recompute_modules", "multi_latent_attention"},
     .when = {G::selective},
     .broken =
         [](const Facts& f) {
           return f.recomputes(R::mla_up_proj) && !f.config.multi_latent_attention;
         }},
    {.id = "recompute-gdn-needs-gdn",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "recompute of gdn_norm_out needs the attention variant gdn or gdn2",
     .message = "gdn_norm_out is recomputed in a model without gated delta attention",
     .remedy = "remove gdn_norm_out",
     .consequence = class_stops,
     .source = "TC:1964-1981, TC:2028-2035",
     .fields = {"recompute_modules", "experimental_attention_variant"},
     .when = {G::selective},
     .broken =
         [](const Facts& f) {
           const ExperimentalAttentionVariant variant = f.config.experimental_attention_variant;
           return f.recomputes(R::gdn_norm_out) && variant != ExperimentalAttentionVariant::gdn &&
                  variant != ExperimentalAttentionVariant::gdn2;
         }},
    {.id = "recompute-mhc-needs-mhc",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "recompute of mhc needs enable_mhc_connections",
     .message = "mhc is recomputed in a model without such connections",
     .remedy = "remove mhc, or set enable_mhc_connections",
     .consequence = class_stops,
     .source = "TC:1964-1981, TC:2028-2035",
     .fields = {"recompute_modules", "enable_mhc_connections"},
     .when = {G::selective},
     .broken =
         [](const Facts& f) { return f.recomputes(R::mhc) && !f.config.enable_mhc_connections; }},
    {.id = "recompute-mhc-not-mlp",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "mhc and mlp are not both recomputed",
     .message = "mhc and mlp are both recomputed",
     .remedy = "remove one of them",
     .consequence = class_stops,
     .source = "TC:1964-1981, TC:2028-2035",
     .fields = {"recompute_modules"},
     .when = {G::selective},
     .broken = [](const Facts& f) { return f.recomputes(R::mhc) && f.recomputes(R::mlp); }},
    {.id = "recompute-shared-experts-no-overlap",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "recompute of shared_experts goes without moe_shared_expert_overlap",
     .message = "shared experts are recomputed while they overlap with the dispatch",
     .remedy = "turn moe_shared_expert_overlap off, or remove shared_experts",
     .consequence = class_stops,
     .source = "TC:1991-1998",
     .fields = {"recompute_modules", "moe_shared_expert_overlap"},
     .when = {G::selective},
     .broken =
         [](const Facts& f) {
           return f.recomputes(R::shared_experts) && f.config.moe_shared_expert_overlap;
         }},
    {.id = "recompute-fp8-delayed",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "fp8 with recompute of moe_act or layernorm needs another recipe than delayed",
     .message = "moe_act or layernorm is recomputed under delayed fp8 scaling",
     .remedy = "set fp8_recipe to tensorwise, mxfp8 or blockwise",
     .consequence = class_stops,
     .source = "TC:2000-2012",
     .fields = {"recompute_modules", "fp8", "fp8_recipe"},
     .when = {G::selective},
     .broken =
         [](const Facts& f) {
           return f.config.fp8 != Fp8Format::none && f.config.fp8_recipe == Fp8Recipe::delayed &&
                  f.recompute_modules().contains_any({R::moe_act, R::layernorm});
         }},
    {.id = "recompute-fp8-te-2.6",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "fp8 with recompute of moe_act or layernorm needs Transformer Engine 2.6.0",
     .message = "moe_act or layernorm is recomputed under fp8",
     .remedy = "use Transformer Engine 2.6.0 or later",
     .consequence = class_stops,
     .source = "TC:2000-2012",
     .fields = {"recompute_modules", "fp8"},
     .when = {G::selective},
     .broken =
         [](const Facts& f) {
           return f.config.fp8 != Fp8Format::none &&
                  f.recompute_modules().contains_any({R::moe_act, R::layernorm});
         },
     .library = Library::transformer_engine,
     .at_least = {2, 6, 0}},
    {.id = "recompute-moe-vs-router-te",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .statement = "under transformer_engine, moe is not recomputed while moe_router is captured",
     .message = "the MoE layer is recomputed around a captured router",
     .remedy = "remove moe from recompute_modules, or moe_router from the scope",
     .consequence = "the recompute would cross the border of a graph",
     .source = "TC:2862-2869",
     .fields = {"recompute_modules", "cuda_graph_scope", "cuda_graph_impl",
                "recompute_granularity"},
     .when = {G::te, G::selective},
     .broken = [](const Facts& f) { return f.recomputes(R::moe) && f.in_scope(M::moe_router); }},
    {.id = "graphed-recompute-attn-dropout",
     .subject = subject,
     .rulesets = mcore_and_cells,
     .layer = Layer::config,
     .statement = "with attention_dropout, core_attn is not recomputed inside a captured region",
     .message = "core_attn is recomputed inside a graph with attention dropout on",
     .remedy = "set attention_dropout to 0, remove core_attn from recompute_modules, or capture "
               "modules other than attn",
     .consequence = random_consequence,
     .source = "TC:2874-2885",
     .fields = {"attention_dropout", "recompute_modules", "recompute_granularity",
                "cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::graphs, G::selective},
     .broken =
         [](const Facts& f) {
           return f.config.attention_dropout != 0.0F && f.recomputes(R::core_attn) &&
                  f.captured(M::attn);
         }},
    {.id = "graphed-recompute-hidden-dropout",
     .subject = subject,
     .rulesets = mcore_and_cells,
     .layer = Layer::config,
     .statement = "with hidden_dropout, neither mlp nor moe is recomputed inside a captured region",
     .message = "mlp or moe is recomputed inside a graph with hidden dropout on",
     .remedy = "set hidden_dropout to 0, remove the module from recompute_modules, or from the "
               "scope",
     .consequence = random_consequence,
     .source = "TC:2886-2899",
     .fields = {"hidden_dropout", "recompute_modules", "recompute_granularity", "cuda_graph_scope",
                "cuda_graph_impl"},
     .when = {G::graphs, G::selective},
     .broken =
         [](const Facts& f) {
           if (f.config.hidden_dropout == 0.0F) return false;
           return (f.recomputes(R::mlp) && f.captured(M::mlp)) ||
                  (f.recomputes(R::moe) && f.captured(M::moe));
         }},
    {.id = "graphed-recompute-moe-jitter",
     .subject = subject,
     .rulesets = mcore_and_cells,
     .layer = Layer::config,
     .statement = "with moe_input_jitter_eps, moe is not recomputed inside a captured region",
     .message = "moe is recomputed inside a graph with input jitter on",
     .remedy = "unset moe_input_jitter_eps, remove moe from recompute_modules, or from the scope",
     .consequence = random_consequence,
     .source = "TC:2900-2906",
     .fields = {"moe_input_jitter_eps", "recompute_modules", "recompute_granularity",
                "cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::graphs, G::selective},
     .broken =
         [](const Facts& f) {
           return f.config.moe_input_jitter_eps && f.recomputes(R::moe) && f.captured(M::moe);
         }},
    {.id = "gtp-local-shared-experts-lowp",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "GTP with local graphs over shared experts in fp8 or fp4 does not recompute them",
     .message = "shared experts are recomputed in fp8 or fp4 inside a local graph under GTP",
     .remedy = "remove shared_experts from recompute_modules",
     .consequence = "the checkpoint of Transformer Engine refuses the warm-up of local",
     .source = "TC:2908-2927",
     .fields = {"gtp_weight_remat_size", "recompute_modules", "cuda_graph_impl", "cuda_graph_scope",
                "fp8", "fp4"},
     .when = {G::local, G::low_precision},
     .broken =
         [](const Facts& f) {
           const bool captured =
               f.config.cuda_graph_scope.empty() || f.in_scope(M::moe) || f.in_scope(M::moe_router);
           return f.config.gtp_weight_remat_size > 1 && f.separate_shared_experts() && captured &&
                  f.recomputes(R::shared_experts);
         }},
    {.id = "layernorm-recompute-router-te",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::auto_fix,
     .statement = "the norm before a captured router is recomputed only with moe_preprocess "
                  "captured, alltoall or a latent MoE, and no overlapping shared experts",
     .message = "recompute of the norm before the MoE layer is turned off",
     .remedy = "capture moe_preprocess too, or remove layernorm from recompute_modules",
     .consequence = "less memory is saved than asked for",
     .source = "TL:481-521",
     .fields = {"recompute_modules", "cuda_graph_scope", "moe_token_dispatcher_type",
                "moe_shared_expert_overlap", "moe_latent_size"},
     .when = {G::te, G::selective, G::moe_model},
     .broken =
         [](const Facts& f) {
           if (!f.recomputes(R::layernorm) || !f.in_scope(M::moe_router)) return false;
           const bool kept = f.in_scope(M::moe_preprocess) &&
                             (f.alltoall() || f.config.moe_latent_size.has_value());
           return f.config.moe_shared_expert_overlap || !kept;
         }},
    {.id = "ep-overlap-no-full-recompute",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap goes without full recompute, recompute_method and "
                  "recompute_num_layers",
     .message = "expert-parallel overlap is on with recompute of whole layers",
     .remedy = "use selective recompute and unset recompute_method and recompute_num_layers",
     .consequence = class_stops,
     .source = "TC:3021-3032, BCO:499-512",
     .fields = {"overlap_moe_expert_parallel_comm", "recompute_granularity", "recompute_method",
                "recompute_num_layers"},
     .when = {G::ep_overlap},
     .broken =
         [](const Facts& f) {
           return f.full_recompute() || f.config.recompute_method != RecomputeMethod::none ||
                  f.config.recompute_num_layers.has_value();
         }},
    {.id = "ep-overlap-no-moe-recompute",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "expert-parallel overlap goes without moe in recompute_modules, even unused",
     .message = "recompute_modules names moe while expert-parallel overlap is on",
     .remedy = "remove moe from recompute_modules",
     .consequence = class_stops,
     .source = "TC:3021-3032, BCO:499-512",
     .fields = {"overlap_moe_expert_parallel_comm", "recompute_modules"},
     .when = {G::ep_overlap},
     .broken = [](const Facts& f) { return f.recomputes(R::moe); }},
    {.id = "rl-toggle-clears-recompute",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "the switch of reinforcement learning to local unsets recompute_granularity",
     .message = "recompute is off after the switch",
     .remedy = "none needed",
     .consequence = "more memory is used",
     .source = "core/transformer/utils.py:494-501",
     .fields = {"recompute_granularity"}},
};

}  // namespace

std::span<const Rule> recompute_rules() {
  return rows;
}

}  // namespace cgconform::matrix
