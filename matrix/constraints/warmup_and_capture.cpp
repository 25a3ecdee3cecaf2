#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
constexpr Subject subject = Subject::warmup_and_capture;

constexpr Rule rows[] = {
    {.id = "local-recompute-min-warmup",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::auto_fix,
     .statement = "recompute under local needs one warm-up run inside the creation of a graph",
     .message = "one warm-up run is added because of recompute",
     .remedy = "set cuda_graph_warmup_steps to 1 or more",
     .consequence = "none",
     .source = "CG:1021-1023, CG:1313-1316",
     .fields = {"cuda_graph_warmup_steps", "recompute_granularity", "cuda_graph_impl"},
     .when = {G::local_per_layer},
     .broken =
         [](const Facts& f) {
           return f.config.recompute_granularity != RecomputeGranularity::none &&
                  f.config.cuda_graph_warmup_steps < 1;
         },
     .repair = [](TrainingConfig& c) { c.cuda_graph_warmup_steps = 1; }},
    {.id = "gtp-min-warmup",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::auto_fix,
     .statement = "GTP under local needs two warm-up runs inside the creation of a graph",
     .message = "warm-up runs are added because of GTP",
     .remedy = "set cuda_graph_warmup_steps to 2 or more",
     .consequence = "none",
     .source = "CG:1030-1033",
     .fields = {"cuda_graph_warmup_steps", "gtp_weight_remat_size", "cuda_graph_impl"},
     .when = {G::local_per_layer},
     .broken =
         [](const Facts& f) {
           return f.config.gtp_weight_remat_size > 1 && f.config.cuda_graph_warmup_steps < 2;
         },
     .repair = [](TrainingConfig& c) { c.cuda_graph_warmup_steps = 2; }},
    {.id = "te-capture-step",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "transformer_engine captures when as many iterations as cuda_graph_warmup_steps "
                  "are done",
     .message = "graphs are captured between two iterations",
     .remedy = "none needed",
     .consequence = "none",
     .source = "TR:4632-4645, TR:4762, BTR:434-445, BTR:544-549",
     .fields = {"cuda_graph_warmup_steps"}},
    {.id = "te-capture-once",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "graphs of Transformer Engine are captured once",
     .message = "a second capture is asked for",
     .remedy = "delete the graphs first",
     .consequence = "the capture stops with an assertion",
     .source = "CG:2750"},
    {.id = "te-inner-warmup",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement =
         "inner warm-up runs are max(1, ceil((10 - warmup_steps x micro-batches) / captured "
         "micro-batches))",
     .message = "the capture runs its own warm-up",
     .remedy = "none needed",
     .consequence = "none",
     .source = "CG:2665-2677",
     .fields = {"cuda_graph_warmup_steps", "num_microbatches"}},
    {.id = "te-warmup0-hooks",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20, Ruleset::bridge_0_6},
     .layer = Layer::build,
     .statement = "without warm-up steps every stage has layers to capture",
     .message = "a stage without layers to capture fails the check after the first step",
     .remedy = "set cuda_graph_warmup_steps to 1 or more",
     .consequence = "the first step ends with an assertion",
     .source = "TR:4775-4783, BTR:559-564",
     .fields = {"cuda_graph_warmup_steps"}},
    {.id = "full-iter-capture-call",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "full_iteration captures in call number cuda_graph_warmup_steps (from 0) and "
                  "replays in the same call",
     .message = "the capture happens inside a step",
     .remedy = "none needed",
     .consequence = "none",
     .source = "FCG:206-241",
     .fields = {"cuda_graph_warmup_steps"}},
    {.id = "optimizer-capture-call",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "the optimizer graph is captured by its own counter in the same way",
     .message = "the optimizer has a graph of its own",
     .remedy = "none needed",
     .consequence = "none",
     .source = "OCG:30-52",
     .fields = {"optimizer_cuda_graph"}},
    {.id = "local-capture-point",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "local captures at the end of the first training step; warm-up steps are eager "
                  "runs inside the creation of each graph",
     .message = "the capture happens after the first step",
     .remedy = "none needed",
     .consequence = "none",
     .source = "SCH:888-889, SCH:2108-2109, SCH:2506-2507, CG:599-729, CG:1313-1357",
     .fields = {"cuda_graph_warmup_steps"}},
    {.id = "local-record-after-create",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .statement = "nothing is recorded after the graphs exist",
     .message = "a layer is met for the first time after capture",
     .remedy = "run every layer in the first step",
     .consequence = "the step stops with an assertion",
     .source = "CG:602-608"},
    {.id = "warmup-zero",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "warm-up steps are one or more",
     .message = "cuda_graph_warmup_steps is 0, which is allowed and not recommended",
     .remedy = "set cuda_graph_warmup_steps to 3",
     .consequence = "lazy initialisation of libraries may fall into the capture",
     .source = "docs/user-guide/features/cuda_graph.md",
     .fields = {"cuda_graph_warmup_steps"},
     .when = {G::graphs},
     .broken = [](const Facts& f) { return f.config.cuda_graph_warmup_steps == 0; }},
};

}  // namespace

std::span<const Rule> warmup_rules() {
  return rows;
}

}  // namespace cgconform::matrix
