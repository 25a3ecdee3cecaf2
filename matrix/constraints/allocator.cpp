#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
constexpr Subject subject = Subject::allocator;
constexpr std::string_view expandable_message =
    "expandable segments are on and NCCL_GRAPH_REGISTER is not 0";
constexpr std::string_view expandable_remedy =
    "export NCCL_GRAPH_REGISTER=0, or turn expandable_segments off in PYTORCH_CUDA_ALLOC_CONF";
constexpr std::string_view expandable_consequence =
    "NCCL registers graph memory that is mapped in pieces: illegal accesses at replay";

/// What the allocator and NCCL do, whatever the frameworks' tests of the variables see.
bool registers_expandable_segments(const Facts& f) {
  return f.platform.expandable_segments && f.nccl_registers_graph_memory();
}

constexpr Rule rows[] = {
    {.id = "expandable-segments-te",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "transformer_engine with expandable segments, in whatever spelling, needs NCCL "
                  "graph registration off, on every architecture",
     .message = expandable_message,
     .remedy = expandable_remedy,
     .consequence = expandable_consequence,
     .source = "AR:1961-1968, CG:2193-2199; decided by what is in effect, not by their string test",
     .fields = {"cuda_graph_impl"},
     .when = {G::te, G::expandable_segments},
     .broken = registers_expandable_segments},
    {.id = "expandable-segments-te",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement = "transformer_engine with expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF "
                  "needs NCCL_GRAPH_REGISTER to be exactly 0, on every architecture",
     .message = expandable_message,
     .remedy = expandable_remedy,
     .consequence = expandable_consequence,
     .source = "AR:1961-1968, CG:2193-2199",
     .fields = {"cuda_graph_impl"},
     .when = {G::te, G::expandable_segments},
     .broken =
         [](const Facts& f) {
           return f.platform.expandable_segments_as_tested && !f.nccl_register_off_as_tested();
         }},
    {.id = "expandable-segments-te",
     .subject = subject,
     .rulesets = {Ruleset::mcore_0_17, Ruleset::mcore_0_20},
     .layer = Layer::build,
     .statement = "transformer_engine with expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF "
                  "needs NCCL_GRAPH_REGISTER to be exactly 0, on every architecture",
     .message = expandable_message,
     .remedy = expandable_remedy,
     .consequence = expandable_consequence,
     .source = "CG:2193-2199",
     .fields = {"cuda_graph_impl"},
     .when = {G::te, G::expandable_segments},
     .broken =
         [](const Facts& f) {
           return f.platform.expandable_segments_as_tested && !f.nccl_register_off_as_tested();
         }},
    {.id = "expandable-segments-te",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::build,
     .statement = "transformer_engine with expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF "
                  "needs NCCL_GRAPH_REGISTER to be 0, which Bridge sets where the shell does not",
     .message = expandable_message,
     .remedy = expandable_remedy,
     .consequence = expandable_consequence,
     .source = "CG:2193-2199, BEN:22-33",
     .fields = {"cuda_graph_impl"},
     .when = {G::te, G::expandable_segments},
     .broken =
         [](const Facts& f) {
           return f.platform.expandable_segments_as_tested && f.platform.nccl_graph_register &&
                  !f.nccl_register_off_as_tested();
         }},
    {.id = "expandable-segments-local-pre-sm100",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "per-layer local graphs with expandable segments, in whatever spelling, on an "
                  "architecture before sm_100 need NCCL graph registration off",
     .message = expandable_message,
     .remedy = expandable_remedy,
     .consequence = expandable_consequence,
     .source = "CG:1428-1435 (8fd390d1fb); decided by what is in effect, not by its string test",
     .fields = {"cuda_graph_impl"},
     .when = {G::local_per_layer, G::expandable_segments},
     .broken =
         [](const Facts& f) {
           return f.platform.compute_capability < 100 && registers_expandable_segments(f);
         }},
    {.id = "expandable-segments-local-pre-sm100",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::mcore_0_17},
     .layer = Layer::build,
     .statement = "per-layer local graphs with expandable segments on an architecture before "
                  "sm_100 need NCCL_GRAPH_REGISTER to be 0",
     .message = expandable_message,
     .remedy = expandable_remedy,
     .consequence = expandable_consequence,
     .source =
         "CG:1428-1435 (8fd390d1fb); removed from Megatron-Core in July 2026, the hazard stays",
     .fields = {"cuda_graph_impl"},
     .when = {G::local_per_layer, G::expandable_segments},
     .broken =
         [](const Facts& f) {
           return f.platform.expandable_segments_as_tested && f.platform.compute_capability < 100 &&
                  !f.nccl_register_off_as_tested();
         }},
    {.id = "expandable-segments-full-iteration",
     .subject = subject,
     .rulesets = {Ruleset::cgconform},
     .layer = Layer::build,
     .statement = "full_iteration with expandable segments needs NCCL graph registration off",
     .message = expandable_message,
     .remedy = expandable_remedy,
     .consequence = expandable_consequence,
     .source = "no framework checks it; the memory of the graph is registered all the same",
     .fields = {"cuda_graph_impl", "cuda_graph_scope"},
     .when = {G::full_iteration, G::expandable_segments},
     .broken = registers_expandable_segments},
    {.id = "expandable-segments-untested",
     .subject = subject,
     .rulesets = {Ruleset::seed, Ruleset::mcore_0_17, Ruleset::mcore_0_20,
                  Ruleset::megatron_lm_0_20, Ruleset::bridge_0_6},
     .layer = Layer::build,
     .action = Action::warn,
     .statement = "expandable segments under a spelling that the frameworks' test does not see "
                  "(expandable_segments:true, a blank, PYTORCH_ALLOC_CONF) need the same",
     .message =
         "expandable segments are on under a spelling that the frameworks' substring test of "
         "PYTORCH_CUDA_ALLOC_CONF misses, and NCCL_GRAPH_REGISTER is not 0",
     .remedy = expandable_remedy,
     .consequence = expandable_consequence,
     .source = "AR:1961-1968, CG:2193-2199: a string test of one variable of two",
     .fields = {"cuda_graph_impl"},
     .when = {G::graphs, G::expandable_segments},
     .broken =
         [](const Facts& f) {
           return f.platform.expandable_segments && !f.platform.expandable_segments_as_tested &&
                  f.nccl_registers_graph_memory();
         }},
    {.id = "nccl-ub-expandable",
     .subject = subject,
     .rulesets = mcore,
     .layer = Layer::config,
     .statement = "nccl_ub with expandable_segments:True needs torch 2.11.0",
     .message = "NCCL user buffers are combined with expandable segments",
     .remedy = "use torch 2.11.0 or later, or turn one of them off",
     .consequence = "the configuration class stops with an error",
     .source = "DDC:262-268",
     .fields = {"nccl_ub"},
     .when = {G::expandable_segments},
     .broken =
         [](const Facts& f) {
           return f.config.nccl_ub && f.platform.expandable_segments_as_tested;
         },
     .library = Library::torch,
     .at_least = {2, 11, 0}},
    {.id = "uvm-expandable",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "a unified memory pool for inference goes without expandable segments",
     .message = "inference uses unified memory together with expandable segments",
     .remedy = "turn expandable_segments off",
     .consequence = "the inference context stops with an error",
     .source = "UM:280-289",
     .fields = {"inference_dynamic_batching_unified_memory_level"},
     .when = {G::expandable_segments},
     .broken =
         [](const Facts& f) {
           return f.platform.expandable_segments &&
                  f.config.inference_dynamic_batching_unified_memory_level > 0;
         }},
    {.id = "bridge-env-defaults",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .action = Action::behaviour,
     .statement = "recipes set NCCL_GRAPH_REGISTER=0, expandable_segments:True, NCCL_NVLS_ENABLE=0 "
                  "and TORCH_NCCL_AVOID_RECORD_STREAMS=1 where the shell does not",
     .message = "Bridge sets the allocator and NCCL variables",
     .remedy = "none needed",
     .consequence = "none",
     .source = "BEN:22-33, BCF:1984-1989"},
    {.id = "graph-pool-record-stream",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .action = Action::behaviour,
     .statement = "twenty recipes add graph_capture_record_stream_reuse:True to the allocator "
                  "settings, nearly all of them for full_iteration",
     .message = "recipes let the graph pool reuse memory of recorded streams",
     .remedy = "none needed",
     .consequence = "none",
     .source = "perf_recipes/llama/gb200/llama3.py:66"},
};

}  // namespace

std::span<const Rule> allocator_rules() {
  return rows;
}

}  // namespace cgconform::matrix
