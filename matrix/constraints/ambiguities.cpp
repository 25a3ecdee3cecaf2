#include "matrix/constraint_table.hpp"
#include "matrix/constraints/hazards.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
constexpr Subject subject = Subject::ambiguities;
constexpr Rulesets documents{Ruleset::seed, Ruleset::mcore_0_17, Ruleset::mcore_0_20,
                             Ruleset::megatron_lm_0_20, Ruleset::bridge_0_6};

constexpr Rule rows[] = {
    {.id = "amb-none-plus-full-iteration",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .action = Action::warn,
     .statement = "impl none with the scope full_iteration: on in Megatron-Core since 0.18 and in "
                  "Megatron-LM, off in Bridge, in older releases and in the seed documents",
     .message =
         "impl none with the scope full_iteration means graphs on to some frameworks and off "
         "to others",
     .remedy = "write cuda_graph_impl full_iteration (or local), or remove the scope",
     .consequence = "a run is graphed, or not, against its author's will",
     .source = "TC:2752-2773, BUT:136-139",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .broken = full_iteration_without_impl},
    {.id = "amb-seed-local-per-layer",
     .subject = subject,
     .rulesets = {Ruleset::seed},
     .layer = Layer::config,
     .action = Action::warn,
     .statement = "per-layer local graphs: one seed document knows full iteration only, the other "
                  "makes them the default; read as legal",
     .message = "per-layer local graphs are legal in Megatron-Core and not in Bridge",
     .remedy = "use transformer_engine for layers with Bridge",
     .consequence = "Bridge refuses the configuration",
     .source = "the seed documents differ",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .when = {G::local_per_layer},
     .broken = [](const Facts&) { return true; }},
    {.id = "amb-seed-mixed-full-iteration",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::mcore_0_17},
     .layer = Layer::config,
     .action = Action::warn,
     .statement = "full_iteration beside other scopes: accepted until 0.17, refused since; read as "
                  "legal",
     .message = "the scope names modules beside full_iteration, which later releases refuse",
     .remedy = "name full_iteration alone",
     .consequence = "later releases stop with an assertion",
     .source = "TC:2794-2796",
     .fields = {"cuda_graph_scope"},
     .when = {G::full_iteration},
     .broken = [](const Facts& f) { return f.mixed_full_iteration(); }},
    {.id = "amb-expandable-segments-not-te",
     .subject = subject,
     .rulesets = documents,
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "local and full_iteration with expandable segments and NCCL registration on: no "
                  "check today, and the hazard is the same as with transformer_engine",
     .message = "expandable segments are on and NCCL may register the memory of local or "
                "full-iteration graphs; nothing checks it",
     .remedy = "export NCCL_GRAPH_REGISTER=0",
     .consequence = "NCCL registers graph memory that is mapped in pieces: illegal accesses at "
                    "replay",
     .source = "5e4fe9b3c7 removed the check",
     .fields = {"cuda_graph_impl"},
     .when = {G::graphs, G::expandable_segments},
     .broken =
         [](const Facts& f) {
           // Bridge sets NCCL_GRAPH_REGISTER=0 where the shell does not.
           const bool set_by_bridge =
               f.ruleset == Ruleset::bridge_0_6 && !f.platform.nccl_graph_register;
           return !f.te() && f.nccl_registers_graph_memory() && !set_by_bridge;
         }},
    {.id = "amb-rng-te-attention-tracker",
     .subject = subject,
     .rulesets = {Ruleset::mcore_0_17, Ruleset::mcore_0_20, Ruleset::bridge_0_6},
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "the manager of local graphs accepts Megatron's own tracker, and Transformer "
                  "Engine's attention refuses it when it holds one",
     .message = "Transformer Engine's attention may hold an RNG tracker that it refuses to capture",
     .remedy = "set use_te_rng_tracker, or sequence_parallel",
     .consequence = "the capture stops with an assertion",
     .source = "CG:1913-1917, TDP:1671-1678",
     .fields = {"use_te_rng_tracker", "sequence_parallel", "transformer_impl", "cuda_graph_impl"},
     .when = {G::per_layer},
     .broken =
         [](const Facts& f) {
           return !f.config.use_te_rng_tracker && !f.config.te_rng_tracker &&
                  !f.config.sequence_parallel &&
                  f.config.transformer_impl == TransformerImpl::transformer_engine;
         }},
    {.id = "amb-full-iter-dropless-moe",
     .subject = subject,
     .rulesets = documents,
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "full_iteration of a dropless model needs a dispatch without host "
                  "synchronisation, which depends on the backend",
     .message = "whether this dropless model can be captured as one iteration depends on the "
                "dispatcher backend; read as legal",
     .remedy = "use drop-and-pad routing, or moe_paged_stash with the backend hybridep or ncclep",
     .consequence = "the synchronisation fails the capture",
     .source = "TD:956-958",
     .fields = {"cuda_graph_impl", "cuda_graph_scope", "num_moe_experts",
                "moe_token_dispatcher_type", "moe_flex_dispatcher_backend"},
     .when = {G::full_iteration, G::moe_model},
     .broken = dispatch_syncs_in_capture},
    {.id = "amb-recompute-skipped-in-capture",
     .subject = subject,
     .rulesets = documents,
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "recompute inside per-layer graphs is accepted and does nothing",
     .message = "recompute inside a per-layer graph is accepted and does nothing; read as legal",
     .remedy = "remove the module from recompute_modules, or from the scope",
     .consequence = "no memory is saved",
     .source = "RN:682-687",
     .fields = {"recompute_modules", "recompute_granularity", "cuda_graph_scope"},
     .when = {G::per_layer, G::selective},
     .broken = recompute_is_skipped},
    {.id = "amb-local-lowp-te-checkpoint",
     .subject = subject,
     .rulesets = documents,
     .layer = Layer::build,
     .action = Action::warn,
     .statement =
         "fp8 or fp4 checkpoints of Transformer Engine inside local graphs are accepted and "
         "must fail by inspection",
     .message = "a low-precision checkpoint inside a local graph is accepted and should fail; read "
                "as legal",
     .remedy = "remove mlp and shared_experts from recompute_modules",
     .consequence = "the capture stops with an error",
     .source = "CG:1339-1345, TDI:410-413",
     .fields = {"recompute_modules", "cuda_graph_impl", "cuda_graph_scope", "fp8", "fp4"},
     .when = {G::local_per_layer, G::selective, G::low_precision},
     .broken = local_checkpoint_in_low_precision},
    {.id = "amb-full-recompute-dropout",
     .subject = subject,
     .rulesets = documents,
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "full recompute with dropout inside the captured iteration is accepted",
     .message =
         "full recompute with dropout inside the captured iteration is accepted; read as legal",
     .remedy = "set attention_dropout and hidden_dropout to 0",
     .consequence = "the recomputed forward may draw other random numbers",
     .source = "TC:2859-2906",
     .fields = {"recompute_granularity", "attention_dropout", "hidden_dropout", "cuda_graph_impl"},
     .when = {G::full_iteration, G::full_recompute},
     .broken = full_recompute_with_dropout},
    {.id = "amb-local-scope-is-layer-type",
     .subject = subject,
     .rulesets = documents,
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "what a scope of local captures depends on the layer specification",
     .message =
         "what this scope of local captures depends on the layer specification; read as legal",
     .remedy = "use transformer_engine, or a hybrid layer specification",
     .consequence = "more, or less, is captured than the scope names",
     .source = "TL:584-588",
     .fields = {"cuda_graph_impl", "cuda_graph_scope", "num_moe_experts", "is_hybrid_model"},
     .when = {G::local_per_layer, G::moe_model},
     .broken = local_scope_selects_layer_types},
    {.id = "amb-local-mlp-scope-attribute-error",
     .subject = subject,
     .rulesets = documents,
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "whether local with mlp alone can be built depends on the layer specification",
     .message = "whether local with mlp alone can be built depends on the layer specification; "
                "read as legal",
     .remedy = "add attn to the scope, or use transformer_engine",
     .consequence = "AttributeError while the model is built",
     .source = "TL:594, TL:468, TL:343",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .when = {G::local_per_layer},
     .broken = local_mlp_alone},
    {.id = "amb-bridge-local-inference-loophole",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .action = Action::warn,
     .statement = "Bridge's check of local lets inference settings through to training",
     .message = "an inference setting lets per-layer local graphs into training; read as legal",
     .remedy = "use transformer_engine for layers",
     .consequence = "an untested combination trains",
     .source = "BUT:143-146",
     .fields = {"enable_cuda_graph", "inference_cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::local_per_layer},
     .broken = bridge_local_loophole},
    {.id = "amb-warmup-negative-never-captures",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "negative warm-up steps, or as many as training iterations, are accepted and "
                  "nothing is captured",
     .message = "the step at which graphs are captured is never reached: the run stays eager",
     .remedy = "set cuda_graph_warmup_steps between 0 and train_iters - 1",
     .consequence = "no speed-up, and no message",
     .source = "TR:4632-4645, FCG:206-241",
     .fields = {"cuda_graph_warmup_steps", "train_iters"},
     .when = {G::graphs},
     .broken =
         [](const Facts& f) {
           const int steps = f.config.cuda_graph_warmup_steps;
           return steps < 0 || (f.config.train_iters && steps >= *f.config.train_iters);
         }},
};

}  // namespace

std::span<const Rule> ambiguity_rules() {
  return rows;
}

}  // namespace cgconform::matrix
