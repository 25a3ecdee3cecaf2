#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
constexpr Subject subject = Subject::parameter_gather;

constexpr Rule rows[] = {
    {.id = "fsdp-cg-mode",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::auto_fix,
     .statement = "use_megatron_fsdp with graphs turns megatron_fsdp_cuda_graph_mode on",
     .message = "megatron_fsdp_cuda_graph_mode is turned on",
     .remedy = "set megatron_fsdp_cuda_graph_mode",
     .consequence = "none",
     .source = "TR:2651-2660",
     .fields = {"use_megatron_fsdp", "megatron_fsdp_cuda_graph_mode", "cuda_graph_impl"},
     .when = {G::graphs},
     .broken =
         [](const Facts& f) {
           return f.config.use_megatron_fsdp && !f.config.use_megatron_fsdp_v2 &&
                  !f.config.megatron_fsdp_cuda_graph_mode;
         },
     .repair = [](TrainingConfig& c) { c.megatron_fsdp_cuda_graph_mode = true; }},
    {.id = "pre-hook-toggle-predicate",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "forward pre-hooks are toggled with a distributed optimizer and "
                  "overlap_param_gather, and without Megatron-FSDP",
     .message = "pre-hooks are toggled around capture",
     .remedy = "none needed",
     .consequence = "none",
     .source = "TR:5640-5657, BTR:1143",
     .fields = {"use_distributed_optimizer", "overlap_param_gather", "use_megatron_fsdp"}},
    {.id = "te-disable-hooks-around-capture",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "hooks are disabled for the capture and become manual hooks after it",
     .message = "hooks are disabled while capturing",
     .remedy = "none needed",
     .consequence = "none",
     .source = "TR:4640-4645, BTR:440-445",
     .fields = {"overlap_param_gather", "cuda_graph_warmup_steps"}},
    {.id = "pre-hook-first-step-off",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "pre-hooks are off in the first step",
     .message = "pre-hooks are off in the first step",
     .remedy = "none needed",
     .consequence = "none",
     .source = "TR:4514-4520, BTR:364-374",
     .fields = {"overlap_param_gather"}},
    {.id = "te-manual-hooks",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "before each replay the pre-hook of every captured parameter runs",
     .message = "parameters are gathered before a replay",
     .remedy = "none needed",
     .consequence = "without it a replay reads parameters that are not gathered",
     .source = "MOD:274-291, MOD:324-325, TL:1235-1261",
     .fields = {"overlap_param_gather"}},
    {.id = "local-only-ddp-hooks",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "forward pre-hooks of a captured module come from Megatron-Core's DDP",
     .message = "a captured module has a foreign hook",
     .remedy = "remove the hook",
     .consequence = "the capture stops with an assertion",
     .source = "CG:1943-1956, CG:2051-2055"},
    {.id = "ddp-hooks-silent",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement =
         "DDP hooks return at once while layers are captured; full_iteration captures them",
     .message = "DDP hooks are silent during per-layer capture",
     .remedy = "none needed",
     .consequence = "none",
     .source = "DDP:62-65, DDP:528-529, DDP:560-562"},
    {.id = "enable-pre-hook-once",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "hooks are enabled when none is registered and disabled when all are",
     .message = "hooks are enabled or disabled twice",
     .remedy = "keep the pairs",
     .consequence = "the step stops with an assertion",
     .source = "DDP:489-490, DDP:502-508"},
    {.id = "te-keep-ga-flag",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "zero_grad_buffer keeps grad_added_to_main_grad under transformer_engine",
     .message = "the flag is kept",
     .remedy = "none needed",
     .consequence = "none",
     .source = "DDP:695-700"},
    {.id = "local-wgrad-event",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "a backward replay records an event that the bucket's reduction waits for",
     .message = "reductions wait for replays",
     .remedy = "none needed",
     .consequence = "without it a bucket is reduced before its gradients are complete",
     .source = "CG:917-921, PGB:635-645"},
    {.id = "full-iter-mxfp8-copy",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::replay,
     .action = Action::behaviour,
     .statement = "with reused gradient buffers for the mxfp8 gather, main parameters are copied "
                  "before the step",
     .message = "main parameters are copied before the step",
     .remedy = "none needed",
     .consequence = "none",
     .source = "TR:3057-3078, BTR:1655-1662"},
    {.id = "full-iter-ddp-stream",
     .subject = subject,
     .rulesets = all,
     .layer = Layer::build,
     .action = Action::behaviour,
     .statement = "DDP is built on the stream that full_iteration captures",
     .message = "DDP and the capture share a stream",
     .remedy = "none needed",
     .consequence = "without it gradient hooks run on another stream than is captured",
     .source = "TR:2517-2524, MD:340-347"},
    {.id = "fsdp-ep-overlap",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement =
         "Megatron-FSDP with expert-parallel overlap needs impl none or full_iteration and "
         "no fsdp_double_buffer",
     .message = "Megatron-FSDP and expert-parallel overlap are combined with per-layer graphs or "
                "double buffers",
     .remedy = "capture the full iteration, and turn fsdp_double_buffer off",
     .consequence = "the wrapper's constructor stops with an assertion",
     .source = "FSDP:177-187",
     .fields = {"use_megatron_fsdp", "overlap_moe_expert_parallel_comm", "cuda_graph_impl",
                "fsdp_double_buffer"},
     .when = {G::ep_overlap},
     .broken =
         [](const Facts& f) {
           return f.config.use_megatron_fsdp && (f.per_layer() || f.config.fsdp_double_buffer);
         }},
    {.id = "fsdp-v2-no-graphs",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "Megatron-FSDP version 2 goes without graphs (Bridge: also of the optimizer)",
     .message = "Megatron-FSDP version 2 is combined with graphs",
     .remedy = "set cuda_graph_impl to none, and megatron_fsdp_cuda_graph_mode and "
               "optimizer_cuda_graph to false",
     .consequence = "the wrapper's constructor stops with an assertion",
     .source = "FSDP:678-679, BCF:1181-1188",
     .fields = {"use_megatron_fsdp_v2", "cuda_graph_impl", "megatron_fsdp_cuda_graph_mode",
                "optimizer_cuda_graph"},
     .broken =
         [](const Facts& f) {
           const bool optimizer_graph =
               f.ruleset == Ruleset::bridge_0_6 && f.config.optimizer_cuda_graph;
           return f.config.use_megatron_fsdp_v2 &&
                  (f.graphs() || f.config.megatron_fsdp_cuda_graph_mode || optimizer_graph);
         }},
};

}  // namespace

std::span<const Rule> parameter_gather_rules() {
  return rows;
}

}  // namespace cgconform::matrix
