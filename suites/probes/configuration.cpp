#include "suites/probe_rows.hpp"

namespace cgconform::suites {
namespace {

using matrix::Cell;
using matrix::RecomputeGranularity;
using matrix::RecomputeMethod;
using matrix::RecomputeModule;
using workloads::Fault;

constexpr std::string_view frozen_draws =
    "a captured offset is frozen: every replay draws the same dropout masks";
constexpr std::string_view host_read =
    "the host reads a value inside the capture, which fails the capture";
constexpr std::string_view nested_replay =
    "the recompute would replay graphs that keep their activations: it does not happen";
constexpr std::string_view other_masks =
    "the recomputed forward draws other random numbers than the first one";

Cell without_tracker(std::string_view base) {
  Cell cell = probe_cell(base);
  cell.config.use_te_rng_tracker = false;
  cell.config.te_rng_tracker = false;
  return cell;
}

Cell with_one_tracker() {
  Cell cell = probe_cell("local");
  cell.config.te_rng_tracker = false;
  return cell;
}

Cell checking_loss() {
  Cell cell = probe_cell("full-iteration");
  cell.config.check_for_nan_in_loss = true;
  cell.config.check_for_nan_in_loss_and_grad = true;
  return cell;
}

Cell checking_loss_between_parts() {
  Cell cell = checking_loss();
  cell.shape.capture_form = matrix::CaptureForm::partitioned;
  return cell;
}

Cell fully_recomputed(std::string_view base) {
  Cell cell = probe_cell(base);
  cell.config.recompute_granularity = RecomputeGranularity::full;
  cell.config.recompute_method = RecomputeMethod::uniform;
  cell.config.recompute_num_layers = 1;
  return cell;
}

/// Graphs of attention whose weight gradients wait.
Cell delayed_attention(bool without_fusion, bool with_bias) {
  Cell cell = probe_cell("delayed-callables");
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::attn};
  cell.config.gradient_accumulation_fusion = !without_fusion;
  cell.config.add_bias_linear = with_bias;
  return cell;
}

Cell quantised_beside_recompute() {
  Cell cell = probe_cell("fp8-iteration");
  cell.config.recompute_granularity = RecomputeGranularity::selective;
  cell.config.recompute_method = RecomputeMethod::none;
  cell.config.recompute_num_layers.reset();
  cell.config.recompute_modules = matrix::RecomputeModules{RecomputeModule::layernorm};
  return cell;
}

Cell recomputing(std::string_view base, RecomputeModule module) {
  Cell cell = probe_cell(base);
  cell.config.recompute_granularity = RecomputeGranularity::selective;
  cell.config.recompute_modules = matrix::RecomputeModules{module};
  return cell;
}

Cell without_warmup(Cell cell) {
  cell.config.cuda_graph_warmup_steps = 0;
  return cell;
}

}  // namespace

std::vector<Probe> configuration_probes() {
  return {
      {.rule = "rng-te-tracker-required",
       .variant = "local",
       .protects = frozen_draws,
       .cell = without_tracker("local"),
       .beside = {"rng-sync-bridge"},
       .expected = Verdict::fail_rng_state,
       .check_id = "NUM-08"},
      {.rule = "rng-te-tracker-required",
       .variant = "full-iteration",
       .protects = frozen_draws,
       .cell = without_tracker("full-iteration"),
       .beside = {"rng-sync-bridge"},
       .expected = Verdict::fail_rng_state,
       .check_id = "NUM-08"},
      {.rule = "rng-te-tracker-required",
       .variant = "transformer-engine",
       .protects = frozen_draws,
       .cell = without_tracker("transformer-engine"),
       .beside = {"rng-sync-bridge"},
       .expected = Verdict::fail_rng_state,
       .check_id = "NUM-08"},
      {.rule = "rng-sync-bridge",
       .protects = frozen_draws,
       .cell = with_one_tracker(),
       .expected = Verdict::fail_rng_state,
       .check_id = "NUM-08"},
      {.rule = "rng-local-graphsafe",
       .protects = "a tracker that cannot be read by a graph is captured at its state of then",
       .cell = probe_cell("local"),
       .switches = {Fault::f07c_graph_safe_request_dropped},
       .expected = Verdict::fail_rng_state,
       .check_id = "NUM-08"},
      {.rule = "rng-tracker-initialized",
       .protects = "a state that is made inside the capture does not advance between replays",
       .cell = probe_cell("full-iteration"),
       .switches = {Fault::f07b_offset_not_advanced},
       .expected = Verdict::fail_rng_state,
       .check_id = "NUM-08"},
      {.rule = "rng-te-attention-tracker",
       .protects = frozen_draws,
       .cell = probe_cell("transformer-engine"),
       .switches = {Fault::f07a_offset_by_value},
       .expected = Verdict::fail_rng_state,
       .check_id = "NUM-08"},
      {.rule = "full-iter-nan-check",
       .protects = host_read,
       .cell = checking_loss(),
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "full-iter-nan-check",
       .variant = "partitioned",
       .protects = "the host reads between two graphs, not inside of one",
       .cell = checking_loss_between_parts()},
      {.rule = "hz-bridge-nan-grad",
       .protects = host_read,
       .cell = probe_cell("full-iteration-pipeline"),
       .switches = {Fault::f19h_read_to_host},
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "hz-large-grad-checks",
       .protects = host_read,
       .not_shown = "hz-bridge-nan-grad shows the same read"},
      {.rule = "recompute-full-needs-full-iteration",
       .variant = "local",
       .protects = nested_replay,
       .cell = fully_recomputed("local"),
       .expected = Verdict::fail_rng_recompute,
       .check_id = "NUM-12"},
      {.rule = "recompute-full-needs-full-iteration",
       .variant = "transformer-engine",
       .protects = nested_replay,
       .cell = fully_recomputed("transformer-engine"),
       .expected = Verdict::fail_rng_recompute,
       .check_id = "NUM-12"},
      {.rule = "graphed-recompute-attn-dropout",
       .variant = "full-iteration",
       .protects = other_masks,
       .cell = recomputing("full-iteration", RecomputeModule::core_attn)},
      {.rule = "graphed-recompute-attn-dropout",
       .variant = "local",
       .protects = other_masks,
       .cell = recomputing("local", RecomputeModule::core_attn)},
      {.rule = "graphed-recompute-hidden-dropout",
       .variant = "full-iteration",
       .protects = other_masks,
       .cell = recomputing("full-iteration", RecomputeModule::mlp)},
      {.rule = "graphed-recompute-hidden-dropout",
       .variant = "transformer-engine",
       .protects = other_masks,
       .cell = recomputing("transformer-engine", RecomputeModule::mlp)},
      {.rule = "hz-full-recompute-dropout",
       .variant = "as-it-is",
       .protects = other_masks,
       .cell = probe_cell("recompute")},
      {.rule = "hz-full-recompute-dropout",
       .variant = "without-rewinding",
       .protects = other_masks,
       .cell = probe_cell("recompute"),
       .switches = {Fault::f09a_live_counter},
       .expected = Verdict::fail_rng_recompute,
       .check_id = "NUM-12"},
      {.rule = "hz-recompute-skipped",
       .protects = "activations that should be dropped are kept: memory, not results",
       .not_shown = "design.md says that recompute saves nothing there; no check measures it"},
      {.rule = "hz-local-lowp-te-checkpoint",
       .protects = "a checkpoint that refuses the way local runs its warm-up",
       .not_shown = "no checkpoint of Transformer Engine"},
      {.rule = "recompute-fp8-delayed",
       .protects = "the recompute scales by another history than the forward",
       .cell = quantised_beside_recompute()},
      {.rule = "gtp-local-shared-experts-lowp",
       .protects = "a checkpoint over weights that are gathered inside the graph",
       .not_shown = "no gathered weights of a tensor-parallel group"},
      {.rule = "warmup-zero",
       .variant = "full-iteration",
       .protects = "first uses of libraries and kernels fall into the capture",
       .cell = without_warmup(probe_cell("full-iteration"))},
      {.rule = "warmup-zero",
       .variant = "transformer-engine",
       .protects = "first uses of libraries and kernels fall into the capture",
       .cell = without_warmup(probe_cell("transformer-engine"))},
      {.rule = "local-recompute-min-warmup",
       .protects = "first uses of libraries and kernels fall into the capture",
       .cell = without_warmup(recomputing("local", RecomputeModule::layernorm))},
      {.rule = "optimizer-capturable",
       .variant = "learning-rate",
       .protects = "the captured step takes the learning rate of the moment of capture",
       .cell = probe_cell("optimizer"),
       .switches = {Fault::f11a_learning_rate_by_value},
       .expected = Verdict::fail_state_frozen,
       .check_id = "NUM-17"},
      {.rule = "optimizer-capturable",
       .variant = "step",
       .protects = "the captured step corrects the bias by the step of the moment of capture",
       .cell = probe_cell("local-optimizer"),
       .switches = {Fault::f11b_bias_correction_by_value},
       .expected = Verdict::fail_state_frozen,
       .check_id = "NUM-17"},
      {.rule = "te-weight-caching-bool",
       .protects = "a quantised weight is not refreshed after the optimizer's step",
       .cell = probe_cell("fp8-callables"),
       .switches = {Fault::f12d_weight_cache_not_announced},
       .expected = Verdict::fail_fp8_state,
       .check_id = "NUM-16"},
      {.rule = "fp8-amax-outside",
       .protects = "a history of maxima is reduced twice, or not at all",
       .cell = probe_cell("fp8-callables"),
       .switches = {Fault::f12b_amax_reduced_late},
       .expected = Verdict::fail_fp8_state,
       .check_id = "NUM-14"},
      {.rule = "fp8-state-restored",
       .protects = "the runs that belong to a capture move the scales of training",
       .cell = probe_cell("fp8"),
       .switches = {Fault::f12e_scaling_kept_over_warmup},
       .expected = Verdict::fail_fp8_state,
       .check_id = "NUM-06"},
      {.rule = "te-no-autocast-cache",
       .protects = "casts of weights that were cached at capture are read for ever",
       .not_shown = "no cache of casts"},
      {.rule = "delay-wgrad-graph-ga-fusion",
       .protects = "weight gradients of a graph lie in slots that nothing adds up",
       .cell = delayed_attention(true, false),
       .switches = {Fault::f14e_wgrads_left_out},
       .expected = Verdict::fail_grad_accum,
       .check_id = "NUM-02"},
      {.rule = "delay-wgrad-graph-no-attn-bias",
       .protects = "the gradient of a bias is computed outside of the graph, from what is gone",
       .cell = delayed_attention(false, true)},
  };
}

}  // namespace cgconform::suites
