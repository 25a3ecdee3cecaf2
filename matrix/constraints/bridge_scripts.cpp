#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
using I = CudaGraphImpl;
using M = CudaGraphModule;
constexpr Subject subject = Subject::implementation_and_scope;
constexpr Rulesets seed_and_bridge{Ruleset::seed, Ruleset::cgconform, Ruleset::bridge_0_6};

// What the performance scripts of Megatron-Bridge accept and set.
constexpr Rule rows[] = {
    {.id = "bridge-perf-autoset",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::bridge,
     .action = Action::auto_fix,
     .statement =
         "--cuda_graph_impl sets both RNG tracker flags (none clears them); full_iteration "
         "turns the loss check off",
     .message =
         "the performance script sets the RNG tracker flags from --cuda_graph_impl, and turns "
         "the NaN check of the loss off for full_iteration",
     .remedy = "none needed",
     .consequence = "with none, trackers set elsewhere are cleared",
     .source = "BOV:125-135, BOV:157-158",
     .fields = {"cuda_graph_impl", "use_te_rng_tracker", "te_rng_tracker", "check_for_nan_in_loss"},
     .when = {G::performance_overrides},
     .broken = [](const Facts& f) { return f.written.cuda_graph_impl_given; },
     .repair =
         [](TrainingConfig& c) {
           const bool graphs = c.cuda_graph_impl != I::none;
           c.use_te_rng_tracker = graphs;
           c.te_rng_tracker = graphs;
           const bool iteration = c.cuda_graph_impl == I::full_iteration ||
                                  (graphs && c.cuda_graph_scope.contains(M::full_iteration));
           if (iteration) c.check_for_nan_in_loss = false;
         }},
    {.id = "bridge-perf-impl-values",
     .subject = subject,
     .rulesets = seed_and_bridge,
     .layer = Layer::bridge,
     .statement = "--cuda_graph_impl is none, local or transformer_engine",
     .message = "the performance script does not accept --cuda_graph_impl full_iteration",
     .remedy = "write --cuda_graph_impl local --cuda_graph_scope full_iteration",
     .consequence = "the argument parser stops",
     .source = "BAP:27, BAP:93-98",
     .fields = {"cuda_graph_impl"},
     .when = {G::performance_overrides},
     .broken = [](const Facts& f) { return f.written.cuda_graph_impl == I::full_iteration; }},
    {.id = "bridge-perf-scope-values",
     .subject = subject,
     .rulesets = seed_and_bridge,
     .layer = Layer::bridge,
     .statement = "--cuda_graph_scope names full_iteration, attn, mlp, moe, moe_router, "
                  "moe_preprocess or mamba",
     .message = "the performance script does not accept this --cuda_graph_scope",
     .remedy = "name only the seven values it knows",
     .consequence = "the argument parser stops",
     .source = "BAP:28, BAP:101-110",
     .fields = {"cuda_graph_scope"},
     .when = {G::performance_overrides},
     .broken =
         [](const Facts& f) {
           return f.written_scope().contains_any({M::full, M::full_iteration_inference});
         }},
    {.id = "bridge-perf-full-iter-alone",
     .subject = subject,
     .rulesets = seed_and_bridge,
     .layer = Layer::bridge,
     .statement = "full_iteration is the only --cuda_graph_scope, and not with transformer_engine",
     .message = "--cuda_graph_scope combines full_iteration with other scopes or with "
                "transformer_engine",
     .remedy = "use --cuda_graph_impl local --cuda_graph_scope full_iteration alone",
     .consequence = "the script stops with an error",
     .source = "BOV:138-143",
     .fields = {"cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::performance_overrides},
     .broken =
         [](const Facts& f) {
           return f.written_scope().contains(M::full_iteration) &&
                  (f.written_scope().size() > 1 ||
                   f.written.cuda_graph_impl == I::transformer_engine);
         }},
    {.id = "bridge-perf-te-scopes",
     .subject = subject,
     .rulesets = seed_and_bridge,
     .layer = Layer::bridge,
     .statement = "transformer_engine captures modules of a layer only",
     .message = "--cuda_graph_scope is not a set of layer modules, which transformer_engine needs",
     .remedy = "name attn, mlp, moe, moe_router, moe_preprocess or mamba",
     .consequence = "the script stops with an error",
     .source = "BOV:149-154",
     .fields = {"cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::performance_overrides, G::te},
     .broken =
         [](const Facts& f) {
           return f.written_scope().contains_any(
               {M::full, M::full_iteration, M::full_iteration_inference});
         }},
};

}  // namespace

std::span<const Rule> bridge_script_rules() {
  return rows;
}

}  // namespace cgconform::matrix
