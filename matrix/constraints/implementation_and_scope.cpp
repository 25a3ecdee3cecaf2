#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
using I = CudaGraphImpl;
using M = CudaGraphModule;
constexpr Subject subject = Subject::implementation_and_scope;
constexpr CudaGraphScope layer_modules{M::attn,           M::mlp,  M::moe, M::moe_router,
                                       M::moe_preprocess, M::mamba};

bool scope_conflicts_with_modules(const Facts& f) {
  const CudaGraphScope modules = f.written.cuda_graph_modules.value_or(CudaGraphScope{});
  return !f.written.cuda_graph_scope.empty() && !modules.empty() &&
         modules != CudaGraphScope{M::full};
}

// Normalisations come first and in the order the frameworks apply them: each sees the result of
// the one before.
constexpr Rule rows[] = {
    {.id = "bridge-none-clears-scope",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .action = Action::auto_fix,
     .statement = "impl is none: the scope is cleared before Megatron-Core sees it",
     .message = "the implementation is none, so the scope is dropped",
     .remedy = "set cuda_graph_impl if graphs are wanted, or remove the scope",
     .consequence = "nothing is captured",
     .source = "BUT:136-139",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .broken = [](const Facts& f) { return !f.graphs() && !f.config.cuda_graph_scope.empty(); },
     .repair = [](TrainingConfig& c) { c.cuda_graph_scope = {}; }},
    {.id = "bridge-translate-default",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .action = Action::auto_fix,
     .statement = "a Megatron-LM argument list with a scope and no impl means transformer_engine",
     .message = "the scope is given without an implementation; transformer_engine is assumed",
     .remedy = "give --cuda-graph-impl",
     .consequence = "another implementation is captured than Megatron-LM would have taken",
     .source = "BXL:1573, BXL:1590",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .broken =
         [](const Facts& f) {
           return f.written.origin == ConfigOrigin::arguments && !f.written.cuda_graph_impl_given &&
                  !f.written_scope().empty() && !f.written.enable_cuda_graph &&
                  !f.written.external_cuda_graph;
         },
     .repair = [](TrainingConfig& c) { c.cuda_graph_impl = I::transformer_engine; }},
    {.id = "full-iter-impl-to-scope",
     .subject = subject,
     .rulesets = seeds,
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement = "the implementation full_iteration is the scope full_iteration of local",
     .message = "cuda_graph_impl full_iteration is read as local with the scope full_iteration",
     .remedy = "none needed; older releases only know the scope",
     .consequence = "a release before 0.18 refuses the value",
     .source = "TC:2752-2773",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .broken = [](const Facts& f) { return f.is(I::full_iteration); },
     .repair =
         [](TrainingConfig& c) {
           c.cuda_graph_impl = I::local;
           c.cuda_graph_scope.erase(M::full);
           c.cuda_graph_scope.insert(M::full_iteration);
         }},
    {.id = "legacy-enable-to-local",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement = "enable_cuda_graph means impl local",
     .message = "enable_cuda_graph is deprecated and read as cuda_graph_impl local",
     .remedy = "write cuda_graph_impl local",
     .consequence = "the flag disappears in a later release",
     .source = "TC:2706-2708, AR:619-624",
     .fields = {"enable_cuda_graph", "cuda_graph_impl"},
     .broken = [](const Facts& f) { return f.config.enable_cuda_graph; },
     .repair =
         [](TrainingConfig& c) {
           c.enable_cuda_graph = false;
           if (c.cuda_graph_impl == I::none) c.cuda_graph_impl = I::local;
         }},
    {.id = "legacy-external-to-te",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement = "external_cuda_graph means impl transformer_engine",
     .message = "external_cuda_graph is deprecated and read as cuda_graph_impl transformer_engine",
     .remedy = "write cuda_graph_impl transformer_engine",
     .consequence = "the flag disappears in a later release",
     .source = "TC:2709-2714, AR:625-631",
     .fields = {"external_cuda_graph", "cuda_graph_impl"},
     .broken = [](const Facts& f) { return f.config.external_cuda_graph; },
     .repair =
         [](TrainingConfig& c) {
           c.external_cuda_graph = false;
           if (c.cuda_graph_impl == I::none) c.cuda_graph_impl = I::transformer_engine;
         }},
    {.id = "scope-rename",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement = "cuda_graph_scope is the old name of cuda_graph_modules",
     .message = "cuda_graph_scope is deprecated and read as cuda_graph_modules",
     .remedy = "write cuda_graph_modules",
     .consequence = "the old name disappears in a later release",
     .source = "TC:2716-2739, AR:633-641",
     .fields = {"cuda_graph_scope", "cuda_graph_modules"},
     .broken =
         [](const Facts& f) {
           return !f.written.cuda_graph_scope.empty() && !scope_conflicts_with_modules(f);
         }},
    {.id = "scope-rename",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::cgconform, Ruleset::mcore_0_17},
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement = "cuda_graph_modules is the later name of cuda_graph_scope",
     .message = "cuda_graph_modules is read as cuda_graph_scope",
     .remedy = "write cuda_graph_scope for releases before 0.18",
     .consequence = "a release before 0.18 does not know the field",
     .source = "TC:2716-2739",
     .fields = {"cuda_graph_modules", "cuda_graph_scope"},
     .broken =
         [](const Facts& f) {
           return f.written.cuda_graph_modules.has_value() && !scope_conflicts_with_modules(f);
         }},
    {.id = "scope-full-alone",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement = "the scope full alone is the empty scope: the whole layer",
     .message = "the scope full is read as the empty scope (the whole layer)",
     .remedy = "write an empty scope",
     .consequence = "the value disappears in a later release",
     .source = "CGC:39-41, TC:2747-2751",
     .fields = {"cuda_graph_scope"},
     .broken = [](const Facts& f) { return f.config.cuda_graph_scope == CudaGraphScope{M::full}; },
     .repair = [](TrainingConfig& c) { c.cuda_graph_scope = {}; }},
    {.id = "full-iter-scope-migrates",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement =
         "the scope full_iteration becomes the implementation full_iteration, even from none",
     .message = "the scope full_iteration is read as cuda_graph_impl full_iteration",
     .remedy = "write cuda_graph_impl full_iteration",
     .consequence = "the value disappears in a later release",
     .source = "TC:2752-2773, AR:276-294",
     .fields = {"cuda_graph_scope", "cuda_graph_impl"},
     .broken = [](const Facts& f) { return f.in_scope(M::full_iteration) && !f.te(); },
     .repair =
         [](TrainingConfig& c) {
           c.cuda_graph_impl = I::full_iteration;
           c.cuda_graph_scope.erase(M::full_iteration);
         }},
    {.id = "full-iter-inference-migrates",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement = "the scope full_iteration_inference of local becomes inference scope block",
     .message = "full_iteration_inference is read as inference_cuda_graph_scope block",
     .remedy = "write inference_cuda_graph_scope block",
     .consequence = "the value disappears in a later release",
     .source = "CGC:10-13, TC:2752-2773",
     .fields = {"cuda_graph_scope", "inference_cuda_graph_scope"},
     .when = {G::local},
     .broken = [](const Facts& f) { return f.in_scope(M::full_iteration_inference); },
     .repair =
         [](TrainingConfig& c) {
           c.inference_cuda_graph_scope = InferenceCudaGraphScope::block;
           c.cuda_graph_scope.erase(M::full_iteration_inference);
         }},
    {.id = "full-iter-inference-noop",
     .subject = subject,
     .rulesets = {Ruleset::mcore_0_20, Ruleset::megatron_lm_0_20},
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement = "the scope full_iteration_inference with impl none has no effect",
     .message = "full_iteration_inference is ignored because the implementation is none",
     .remedy = "set cuda_graph_impl local, or remove the scope",
     .consequence = "inference runs without graphs",
     .source = "CGC:134-136, TC:2756-2764",
     .fields = {"cuda_graph_scope", "cuda_graph_impl"},
     .broken =
         [](const Facts& f) { return !f.graphs() && f.in_scope(M::full_iteration_inference); },
     .repair = [](TrainingConfig& c) { c.cuda_graph_scope.erase(M::full_iteration_inference); }},
    {.id = "local-router-preprocess-pair",
     .subject = Subject::moe_scopes,
     .rulesets = {Ruleset::cgconform, Ruleset::mcore_0_17, Ruleset::mcore_0_20,
                  Ruleset::megatron_lm_0_20, Ruleset::bridge_0_6},
     .layer = Layer::config,
     .action = Action::auto_fix,
     .statement = "local captures moe_router and moe_preprocess together",
     .message = "local adds the missing one of moe_router and moe_preprocess",
     .remedy = "name both",
     .consequence = "rules about moe_preprocess hold where only moe_router was written",
     .source = "TC:2805-2815",
     .fields = {"cuda_graph_scope", "cuda_graph_impl"},
     .when = {G::local},
     .broken =
         [](const Facts& f) { return f.in_scope(M::moe_router) != f.in_scope(M::moe_preprocess); },
     .repair =
         [](TrainingConfig& c) {
           c.cuda_graph_scope.insert(M::moe_router);
           c.cuda_graph_scope.insert(M::moe_preprocess);
         }},
    {.id = "bridge-none-clears-scope",
     .subject = subject,
     .rulesets = seeds,
     .layer = Layer::bridge,
     .action = Action::auto_fix,
     .statement = "impl is none: the scope is cleared",
     .message = "the implementation is none, so the scope is dropped",
     .remedy = "set cuda_graph_impl if graphs are wanted, or remove the scope",
     .consequence = "nothing is captured",
     .source = "BUT:136-139",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .broken = [](const Facts& f) { return !f.graphs() && !f.config.cuda_graph_scope.empty(); },
     .repair = [](TrainingConfig& c) { c.cuda_graph_scope = {}; }},

    {.id = "impl-enum",
     .subject = subject,
     .rulesets = {Ruleset::mcore_0_17},
     .layer = Layer::config,
     .statement = "impl is none, local or transformer_engine",
     .message = "release 0.17 does not know the implementation full_iteration",
     .remedy = "write cuda_graph_impl local with cuda_graph_scope full_iteration",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2778-2783",
     .fields = {"cuda_graph_impl"},
     .broken = [](const Facts& f) { return f.is(I::full_iteration); }},
    {.id = "impl-enum",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::cgconform, Ruleset::mcore_0_20, Ruleset::megatron_lm_0_20,
                  Ruleset::bridge_0_6},
     .layer = Layer::config,
     .statement = "impl is none, local, transformer_engine or full_iteration",
     .message = "the implementation is unknown; the reader of the input refuses it",
     .remedy = "write one of the four values",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2778-2783",
     .fields = {"cuda_graph_impl"}},
    {.id = "legacy-flag-with-impl",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "enable_cuda_graph and external_cuda_graph are not set together with an impl",
     .message = "a deprecated flag is set together with cuda_graph_impl",
     .remedy = "remove enable_cuda_graph and external_cuda_graph",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2698-2701, AR:611-614",
     .fields = {"enable_cuda_graph", "external_cuda_graph", "cuda_graph_impl"},
     .broken =
         [](const Facts& f) {
           return (f.written.enable_cuda_graph || f.written.external_cuda_graph) &&
                  f.written.cuda_graph_impl != I::none;
         }},
    {.id = "legacy-flags-exclusive",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "enable_cuda_graph and external_cuda_graph are not both set",
     .message = "enable_cuda_graph and external_cuda_graph are both set",
     .remedy = "write cuda_graph_impl instead of either",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2702-2704, AR:615-617",
     .fields = {"enable_cuda_graph", "external_cuda_graph"},
     .broken =
         [](const Facts& f) {
           return f.written.enable_cuda_graph && f.written.external_cuda_graph;
         }},
    {.id = "scope-rename",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .statement = "cuda_graph_scope and cuda_graph_modules are not both given",
     .message = "cuda_graph_scope and cuda_graph_modules are both given",
     .remedy = "keep one of them",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2716-2739",
     .fields = {"cuda_graph_scope", "cuda_graph_modules"},
     .broken = scope_conflicts_with_modules},
    {.id = "scope-name-known",
     .subject = subject,
     .rulesets = seeds,
     .layer = Layer::config,
     .statement = "every item of the scope is one of the seven known names, or full",
     .message = "full_iteration_inference is not a scope of training graphs",
     .remedy = "remove it; the known names are full_iteration, attn, mlp, moe, moe_router, "
               "moe_preprocess and mamba",
     .consequence = "the enumeration lookup stops with a KeyError",
     .source = "CGC:43-59, EN:61-73",
     .fields = {"cuda_graph_scope"},
     .broken =
         [](const Facts& f) { return f.written_scope().contains(M::full_iteration_inference); }},
    {.id = "scope-name-known",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "every item of the scope is a known module or a deprecated value",
     .message = "an item of the scope is unknown; the reader of the input refuses it",
     .remedy = "write known names",
     .consequence = "the enumeration lookup stops with a KeyError",
     .source = "CGC:43-59, EN:61-73",
     .fields = {"cuda_graph_scope"}},
    {.id = "scope-full-alone",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .statement = "full is not named together with other scopes",
     .message = "the scope names full beside other values",
     .remedy = "name either full (the whole layer) or modules",
     .consequence = "the configuration class stops with an assertion",
     .source = "CGC:39-41, TC:2747-2751",
     .fields = {"cuda_graph_scope"},
     .broken =
         [](const Facts& f) {
           return f.written_scope().contains(M::full) && f.written_scope().size() > 1;
         }},
    {.id = "scope-one-legacy-value",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "at most one of full_iteration and full_iteration_inference is named",
     .message = "the scope names full_iteration and full_iteration_inference",
     .remedy = "keep one of them",
     .consequence = "the configuration class stops with an assertion",
     .source = "CGC:97-101",
     .fields = {"cuda_graph_scope"},
     .broken =
         [](const Facts& f) {
           return f.written_scope().contains(M::full_iteration) &&
                  f.written_scope().contains(M::full_iteration_inference);
         }},
    {.id = "full-iter-scope-impl",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .statement = "the scope full_iteration is not used with transformer_engine",
     .message = "transformer_engine captures layers and cannot capture full_iteration",
     .remedy = "use cuda_graph_impl local for full_iteration, or name modules of the layer",
     .consequence = "the configuration class stops with an assertion",
     .source = "CGC:107-111",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .when = {G::te},
     .broken = [](const Facts& f) { return f.in_scope(M::full_iteration); }},
    {.id = "full-iter-scope-inference",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "the scope full_iteration is not combined with an inference scope",
     .message = "the scope full_iteration is combined with an inference scope",
     .remedy = "remove inference_cuda_graph_scope",
     .consequence = "the configuration class stops with an assertion",
     .source = "CGC:112-116",
     .fields = {"cuda_graph_scope", "inference_cuda_graph_scope"},
     .broken =
         [](const Facts& f) {
           return f.written_scope().contains(M::full_iteration) &&
                  f.written.inference_cuda_graph_scope.value_or(InferenceCudaGraphScope::none) !=
                      InferenceCudaGraphScope::none;
         }},
    {.id = "full-iter-inference-scope-impl",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "the scope full_iteration_inference is used with none or local only",
     .message = "full_iteration_inference is combined with an implementation other than local",
     .remedy = "use cuda_graph_impl local",
     .consequence = "the configuration class stops with an assertion",
     .source = "CGC:117-121",
     .fields = {"cuda_graph_scope", "cuda_graph_impl"},
     .broken =
         [](const Facts& f) {
           return f.written_scope().contains(M::full_iteration_inference) &&
                  (f.te() || f.written.cuda_graph_impl == I::full_iteration);
         }},
    {.id = "full-iter-inference-scope-inference",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "the scope full_iteration_inference agrees with the inference scope block",
     .message = "full_iteration_inference is combined with another inference scope than block",
     .remedy = "remove inference_cuda_graph_scope or set it to block",
     .consequence = "the configuration class stops with an assertion",
     .source = "CGC:122-126",
     .fields = {"cuda_graph_scope", "inference_cuda_graph_scope"},
     .broken =
         [](const Facts& f) {
           return f.written_scope().contains(M::full_iteration_inference) &&
                  f.written.inference_cuda_graph_scope.value_or(InferenceCudaGraphScope::block) !=
                      InferenceCudaGraphScope::block;
         }},
    {.id = "full-iter-no-modules",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "impl full_iteration has an empty scope",
     .message = "the scope names modules beside full_iteration",
     .remedy = "remove the modules: the whole iteration is captured anyway",
     .consequence = "the configuration class stops with an assertion",
     .source = "TC:2794-2796, AR:1969-1971",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .when = {G::full_iteration},
     .broken =
         [](const Facts& f) { return f.config.cuda_graph_scope.contains_any(layer_modules); }},
    {.id = "full-iter-no-modules",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::config,
     .statement = "full_iteration is the only item of the scope",
     .message = "the scope names modules beside full_iteration",
     .remedy = "remove the modules: the whole iteration is captured anyway",
     .consequence = "two captures would nest",
     .source = "TC:2794-2796",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .when = {G::full_iteration},
     .broken = [](const Facts& f) { return f.mixed_full_iteration(); }},
    {.id = "inference-scope-matrix",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::config,
     .statement = "the inference scope is layer or block with local, none with the others",
     .message = "the inference scope does not go with the implementation",
     .remedy = "use layer or block with local, and none with every other implementation",
     .consequence = "the configuration class stops with an assertion",
     .source = "CGC:17-22, TC:2785-2793, AR:646-654",
     .fields = {"inference_cuda_graph_scope", "cuda_graph_impl"},
     .broken =
         [](const Facts& f) {
           if (!f.config.inference_cuda_graph_scope) return false;
           const bool off = f.config.inference_cuda_graph_scope == InferenceCudaGraphScope::none;
           return f.is(I::local) == off;
         }},
    {.id = "bridge-local-full-iteration-only",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .statement = "local means full iteration, or an inference scope with an empty scope",
     .message = "Bridge does not capture single layers with local",
     .remedy = "use cuda_graph_impl transformer_engine for layers, or the scope full_iteration",
     .consequence = "Bridge stops with a ValueError",
     .source = "BUT:134-153, BCF:1399, BCF:1514, BGP:233",
     .fields = {"cuda_graph_impl", "cuda_graph_scope", "inference_cuda_graph_scope"},
     .when = {G::local_per_layer},
     .broken =
         [](const Facts& f) {
           // A deprecated flag becomes an implementation only after this check.
           if (f.written.cuda_graph_impl != I::local) return false;
           const bool for_inference =
               f.config.cuda_graph_scope.empty() &&
               f.config.inference_cuda_graph_scope.value_or(InferenceCudaGraphScope::none) !=
                   InferenceCudaGraphScope::none;
           return !for_inference;
         }},
    {.id = "share-io-buffers-removed",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::config,
     .action = Action::warn,
     .statement = "cuda_graph_share_io_buffers no longer exists",
     .message = "cuda_graph_share_io_buffers was removed in January 2026 and does nothing",
     .remedy = "remove it; consecutive graphs alias their buffers by themselves",
     .consequence = "newer releases refuse the unknown argument",
     .source = "642fdd9010, CG:1250-1280",
     .fields = {"cuda_graph_share_io_buffers"},
     .broken = [](const Facts& f) { return f.config.cuda_graph_share_io_buffers; }},
};

}  // namespace

std::span<const Rule> implementation_and_scope_rules() {
  return rows;
}

}  // namespace cgconform::matrix
