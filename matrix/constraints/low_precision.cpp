#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
constexpr Subject subject = Subject::low_precision;

constexpr Rule rows[] = {
    {.id = "te-weight-caching-bool",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::replay,
     .statement = "with weight caching every replay passes is_first_microbatch as a boolean",
     .message = "a replay does not say whether it is the first micro-batch",
     .remedy = "pass is_first_microbatch",
     .consequence = "the replay stops with an assertion",
     .source = "TGR:1125-1134, MOD:341, CG:2719"},
    {.id = "te-fp8-per-layer-2.8",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "from Transformer Engine 2.8 fp8 is chosen for each captured layer",
     .message = "first and last layers may stay in bf16",
     .remedy = "none needed",
     .consequence = "older versions use one setting for all",
     .source = "CG:2694-2715",
     .fields = {"fp8"}},
    {.id = "te-fp8-enabled-type",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "enabled is a boolean, or a tuple with one for each module",
     .message = "the list of fp8 layers does not fit the modules",
     .remedy = "let Megatron-Core make it",
     .consequence = "the capture stops with an assertion",
     .source = "TGR:1540-1550",
     .fields = {"fp8"}},
    {.id = "te-amax-group-1.14",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "from Transformer Engine 1.14 the amax reduction group is passed to the capture",
     .message = "amax is reduced over tensor, context and data parallel ranks",
     .remedy = "none needed",
     .consequence = "none",
     .source = "CG:2720-2727",
     .fields = {"fp8"}},
    {.id = "local-fp4-te-2.7",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "fp4 under local needs Transformer Engine 2.7.0",
     .message = "fp4 layers are captured by local graphs",
     .remedy = "use Transformer Engine 2.7.0 or later",
     .consequence = "the capture stops with an assertion",
     .source = "CG:1220-1224",
     .fields = {"fp4", "cuda_graph_impl"},
     .when = {G::local_per_layer, G::low_precision},
     .broken = [](const Facts& f) { return f.config.fp4; },
     .library = Library::transformer_engine,
     .at_least = {2, 7, 0}},
    {.id = "fp8-amax-outside",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement =
         "per-layer graphs reduce amax once, outside; full_iteration captures the reduction",
     .message = "amax is reduced once a step",
     .remedy = "none needed",
     .consequence = "none",
     .source = "TGR:1099-1101, CG:924-928, TLI:1467-1469, TQ:779-782",
     .fields = {"fp8"}},
    {.id = "fp8-state-restored",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "scales and amax histories are saved before and restored after capture",
     .message = "capture leaves the fp8 state unchanged",
     .remedy = "none needed",
     .consequence = "none",
     .source = "TGR:1295-1296, TGR:1563-1564, TGR:1641-1642, CG:1212-1224, CG:1461-1462",
     .fields = {"fp8", "fp8_recipe"}},
    {.id = "local-fp8-skip-flag",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "the tensor that skips the weight update is written by the first layer only",
     .message = "quantised weights are kept between micro-batches",
     .remedy = "none needed",
     .consequence = "none",
     .source = "CG:866-870",
     .fields = {"fp8"}},
    {.id = "inference-block-fp8",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement =
         "the inference scope block with fp8 needs transformer_impl inference_optimized and "
         "fp8_recipe mxfp8",
     .message = "block-wide inference graphs are combined with fp8 of another kind",
     .remedy = "use transformer_impl inference_optimized with fp8_recipe mxfp8, or the scope layer",
     .consequence = "argument validation stops with an assertion",
     .source = "AR:1239-1245",
     .fields = {"inference_cuda_graph_scope", "fp8", "fp8_recipe", "transformer_impl"},
     .when = {G::low_precision},
     .broken =
         [](const Facts& f) {
           return f.config.inference_cuda_graph_scope == InferenceCudaGraphScope::block &&
                  f.config.fp8 != Fp8Format::none &&
                  (f.config.transformer_impl != TransformerImpl::inference_optimized ||
                   f.config.fp8_recipe != Fp8Recipe::mxfp8);
         }},
};

}  // namespace

std::span<const Rule> low_precision_rules() {
  return rows;
}

}  // namespace cgconform::matrix
