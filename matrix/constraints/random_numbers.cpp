#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
constexpr Subject subject = Subject::random_numbers;

void set_both_trackers(TrainingConfig& config) {
  config.use_te_rng_tracker = true;
  config.te_rng_tracker = true;
}

constexpr Rule rows[] = {
    {.id = "rng-sync-bridge",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .action = Action::auto_fix,
     .statement = "one of rng.te_rng_tracker and model.use_te_rng_tracker sets both",
     .message = "only one of te_rng_tracker and use_te_rng_tracker is set; Bridge sets both",
     .remedy = "set both",
     .consequence = "none with Bridge; other frameworks read one of them",
     .source = "BCF:1414-1416",
     .fields = {"te_rng_tracker", "use_te_rng_tracker"},
     .broken =
         [](const Facts& f) { return f.config.te_rng_tracker != f.config.use_te_rng_tracker; },
     .repair = set_both_trackers},
    {.id = "rng-te-tracker-autofix",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .action = Action::auto_fix,
     .statement = "graphs with Transformer Engine turn te_rng_tracker on",
     .message = "te_rng_tracker is off; Megatron-LM turns it on for graphs with Transformer Engine",
     .remedy = "set te_rng_tracker",
     .consequence = "random streams differ from a run that did not turn it on",
     .source = "AR:1954-1960",
     .fields = {"cuda_graph_impl", "transformer_impl", "te_rng_tracker"},
     .when = {G::graphs},
     .broken =
         [](const Facts& f) {
           return (f.te() || f.config.transformer_impl == TransformerImpl::transformer_engine) &&
                  !f.config.te_rng_tracker;
         },
     .repair = set_both_trackers},
    {.id = "rng-cudagraphable-auto",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "use_cudagraphable_rng is set where impl is not none",
     .message = "the graph-safe random state is chosen by itself",
     .remedy = "none needed",
     .consequence = "none",
     .source = "IN:121-126, BIN:214",
     .fields = {"cuda_graph_impl"}},
    {.id = "rng-te-tracker-required",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::cgconform, Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .statement = "graphs need use_te_rng_tracker",
     .message = "CUDA graphs are on without Transformer Engine's RNG tracker",
     .remedy = "set use_te_rng_tracker and te_rng_tracker to true",
     .consequence = "a captured seed or offset is frozen: every replay draws the same dropout mask",
     .source = "BGP:234-238",
     .fields = {"cuda_graph_impl", "use_te_rng_tracker"},
     .when = {G::graphs},
     .broken = [](const Facts& f) { return !f.config.use_te_rng_tracker; }},
    {.id = "rng-te-tracker-required",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::build,
     .statement = "graphs need the RNG tracker of Transformer Engine",
     .message = "CUDA graphs are on without Transformer Engine's RNG tracker",
     .remedy = "set te_rng_tracker",
     .consequence = "the model builder stops with an assertion",
     .source = "MB:222-226",
     .fields = {"cuda_graph_impl", "te_rng_tracker"},
     .when = {G::graphs},
     .broken =
         [](const Facts& f) { return !f.config.te_rng_tracker && !f.config.use_te_rng_tracker; }},
    {.id = "rng-sync-bridge",
     .subject = subject,
     .rulesets = seeds,
     .layer = Layer::bridge,
     .statement = "both RNG tracker flags are set: use_te_rng_tracker of the model and "
                  "te_rng_tracker of rng",
     .message = "only one of use_te_rng_tracker and te_rng_tracker is set",
     .remedy = "set both to true",
     .consequence = "the model and the seeding code choose different trackers",
     .source = "BCF:1414-1416; newer Bridge repairs it by itself",
     .fields = {"use_te_rng_tracker", "te_rng_tracker", "cuda_graph_impl"},
     .when = {G::graphs},
     .broken =
         [](const Facts& f) { return f.config.use_te_rng_tracker != f.config.te_rng_tracker; }},
    {.id = "rng-local-graphsafe",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::build,
     .statement = "local needs an inference tracker, Transformer Engine's, or the graph-safe one",
     .message = "the RNG tracker is not graph-safe",
     .remedy = "set te_rng_tracker, or initialise with use_cudagraphable_rng",
     .consequence = "the layer's constructor stops with an assertion",
     .source = "CG:1913-1917",
     .fields = {"cuda_graph_impl", "use_te_rng_tracker"}},
    {.id = "rng-torch-api",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::build,
     .statement = "the graph-safe random state needs torch's register_generator_state, "
                  "graphsafe_get_state and clone_state (torch 2.4)",
     .message = "this torch has no graph-safe generator state",
     .remedy = "use torch 2.4 or later",
     .consequence = "initialisation stops with an assertion",
     .source = "RN:243-249",
     .fields = {"cuda_graph_impl"},
     .when = {G::graphs},
     // Only known old versions: every current torch has it.
     .broken =
         [](const Facts& f) {
           return f.platform.torch && *f.platform.torch < Version{2, 4, 0};
         }},
    {.id = "rng-te-1.5",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::build,
     .statement = "use_te_rng_tracker needs Transformer Engine 1.5.0",
     .message = "this Transformer Engine has no RNG tracker",
     .remedy = "use Transformer Engine 1.5.0 or later",
     .consequence = "initialisation stops with an assertion",
     .source = "RN:375-377",
     .fields = {"use_te_rng_tracker"},
     .broken =
         [](const Facts& f) {
           return (f.config.use_te_rng_tracker || f.config.te_rng_tracker) &&
                  f.platform.transformer_engine &&
                  *f.platform.transformer_engine < Version{1, 5, 0};
         }},
    {.id = "rng-tracker-initialized",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::build,
     .statement = "the tracker is initialised before any capture",
     .message = "a capture begins before the RNG tracker exists",
     .remedy = "initialise the random seeds before the first step",
     .consequence = "the capture stops with an assertion",
     .source = "RN:424-429",
     .fields = {"cuda_graph_impl"}},
    {.id = "rng-te-attention-tracker",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::build,
     .statement = "an attention of Transformer Engine that holds a tracker (no sequence_parallel) "
                  "holds its own class of tracker while capturing",
     .message = "Transformer Engine's attention may hold a foreign RNG tracker during capture",
     .remedy = "set use_te_rng_tracker, or sequence_parallel",
     .consequence = "the capture stops with an assertion",
     .source = "TDP:1671-1678, TDP:745-754",
     .fields = {"use_te_rng_tracker", "sequence_parallel", "transformer_impl"}},
    {.id = "rng-inference-noop",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "the inference tracker does nothing in add, set_states and fork",
     .message = "the inference tracker keeps no state",
     .remedy = "none needed",
     .consequence = "none",
     .source = "RN:389-406"},
};

}  // namespace

std::span<const Rule> random_number_rules() {
  return rows;
}

}  // namespace cgconform::matrix
