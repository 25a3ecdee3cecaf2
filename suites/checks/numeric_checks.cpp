#include <array>
#include <initializer_list>
#include <optional>

#include <fmt/format.h>

#include "suites/cell_plan.hpp"
#include "suites/checks/changing_inputs.hpp"
#include "suites/checks/clipping_checks.hpp"
#include "suites/checks/comparator_cases.hpp"
#include "suites/checks/device_agreement.hpp"
#include "suites/checks/difference_text.hpp"
#include "suites/checks/dropout_masks.hpp"
#include "suites/checks/families.hpp"
#include "suites/checks/fp8_checks.hpp"
#include "suites/checks/graphed_callables.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/checks/partial_batches.hpp"
#include "suites/checks/random_scenarios.hpp"
#include "suites/checks/recompute_checks.hpp"
#include "suites/checks/repeated_legs.hpp"
#include "suites/checks/restart_checks.hpp"
#include "suites/checks/routing_checks.hpp"
#include "suites/checks/scan_state.hpp"
#include "suites/checks/state_checks.hpp"
#include "suites/leg_set.hpp"
#include "suites/tolerance.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::ObservedQuantity;
using Quantities = std::initializer_list<ObservedQuantity>;

constexpr Quantities forward_quantities{ObservedQuantity::layer_output, ObservedQuantity::loss};
constexpr Quantities gradient_quantities{ObservedQuantity::layer_grad_input,
                                         ObservedQuantity::main_grad};
constexpr Quantities update_quantities{ObservedQuantity::weight, ObservedQuantity::optimizer_state};
constexpr Quantities accumulated_quantities{ObservedQuantity::main_grad};

/// Where all that led to them is equal and accumulated gradients are the first to differ, the fault
/// lies in how gradients are accumulated, zeroed or stored.
bool is_accumulation_fault(const LegDifference& difference) {
  const ObservationOutcome* first = difference.first();
  if (first == nullptr || first->quantity != ObservedQuantity::main_grad) return false;
  for (const ObservationOutcome& outcome : difference.outcomes) {
    const bool follows = outcome.quantity == ObservedQuantity::main_grad ||
                         outcome.quantity == ObservedQuantity::weight ||
                         outcome.quantity == ObservedQuantity::optimizer_state ||
                         outcome.where.step > first->where.step ||
                         // A step's validation runs on the weights that the step left.
                         (outcome.where.validation && outcome.where.step == first->where.step);
    if (!follows && outcome.differs()) return false;
  }
  return true;
}

/// The verdict a difference stands for: its cause where what came first gives it away.
Verdict diagnose(const LegDifference& difference, const ObservationOutcome& outcome) {
  if (outcome.missing_in_actual || outcome.missing_in_expected) return Verdict::fail_coverage;
  if (outcome.quantity == ObservedQuantity::main_grad && is_accumulation_fault(difference)) {
    return Verdict::fail_grad_accum;
  }
  return Verdict::fail_numeric_mismatch;
}

/// Eager must equal its own repeat before anything can be held against a graph.
std::optional<CheckResult> judge_repeat(JudgeContext& context, Quantities quantities) {
  if (order_changing_reason(context.cell) != nullptr) return std::nullopt;
  const LegDifference& difference = context.legs.difference(eager_leg(), eager_repeat_leg());
  const ObservationOutcome* first = difference.first(quantities);
  if (first == nullptr) return std::nullopt;
  return CheckResult{.verdict = Verdict::fail_nondeterminism,
                     .detail = describe_difference(*first, eager_leg(), eager_repeat_leg()),
                     .divergence = divergence_of(*first)};
}

CheckResult judge_equality(JudgeContext& context, Quantities quantities) {
  if (auto repeat = judge_repeat(context, quantities)) return *repeat;
  std::uint64_t compared = 0;
  for (const auto& [expected, actual] : compared_pairs(context.cell)) {
    const LegDifference& difference = context.legs.difference(expected, actual);
    if (const ObservationOutcome* first = difference.first(quantities)) {
      return {.verdict = diagnose(difference, *first),
              .detail = describe_difference(*first, expected, actual),
              .divergence = divergence_of(*first)};
    }
    compared += difference.compared(quantities);
  }
  if (compared == 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "no such tensor was observed"};
  }
  const OrderChangingReason* reason = order_changing_reason(context.cell);
  const std::string how =
      reason == nullptr ? "bit for bit" : fmt::format("within tolerance ({})", reason->name);
  return {.verdict = is_graph_cell(context.cell) ? Verdict::pass : Verdict::baseline,
          .detail = fmt::format("{} tensors equal {}", compared, how)};
}

CheckResult judge_forward(JudgeContext& context) {
  return judge_equality(context, forward_quantities);
}

CheckResult judge_gradients(JudgeContext& context) {
  return judge_equality(context, gradient_quantities);
}

CheckResult judge_updates(JudgeContext& context) {
  return judge_equality(context, update_quantities);
}

CheckResult judge_accumulation(JudgeContext& context) {
  return judge_equality(context, accumulated_quantities);
}

}  // namespace

std::span<const CheckDefinition> numeric_checks() {
  static constexpr std::array table{
      CheckDefinition{.id = "NUM-01",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = always,
                      .legs = compared_legs,
                      .judge = judge_forward,
                      .scenario = judge_graphed_callables},
      CheckDefinition{.id = "NUM-02",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = always,
                      .legs = compared_legs,
                      .judge = judge_gradients},
      CheckDefinition{.id = "NUM-03",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = always,
                      .legs = compared_legs,
                      .judge = judge_updates},
      CheckDefinition{.id = "NUM-04",
                      .failure = Verdict::fail_grad_accum,
                      .applies = cells_with_accumulation,
                      .legs = compared_legs,
                      .judge = judge_accumulation},
      CheckDefinition{.id = "NUM-05",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = graph_cells,
                      .legs = instrumented_pair,
                      .judge = judge_changing_inputs},
      CheckDefinition{.id = "NUM-06",
                      .failure = Verdict::fail_capture,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = instrumented_pair,
                      .judge = judge_state_over_capture},
      CheckDefinition{.id = "NUM-07",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = graph_cells,
                      .legs = warmup_legs,
                      .judge = judge_warmups},
      CheckDefinition{.id = "NUM-08",
                      .failure = Verdict::fail_rng_state,
                      .applies = graph_cells_with_dropout,
                      .legs = instrumented_pair,
                      .judge = judge_dropout_masks},
      CheckDefinition{.id = "NUM-09",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_rng_state,
                      .scenario = judge_reseed},
      CheckDefinition{.id = "NUM-10",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_rng_state,
                      .scenario = judge_saved_random_state},
      CheckDefinition{.id = "NUM-11",
                      .subject = CheckSubject::gang_scenario,
                      .failure = Verdict::fail_rng_state,
                      .scenario = judge_masks_of_ranks},
      CheckDefinition{.id = "NUM-12",
                      .failure = Verdict::fail_rng_recompute,
                      .applies = graph_cells_that_redraw,
                      .legs = instrumented_pair,
                      .judge = judge_recomputed_masks},
      CheckDefinition{.id = "NUM-13",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = cells_with_recompute,
                      .legs = recompute_legs,
                      .judge = judge_recompute_on_and_off},
      CheckDefinition{.id = "NUM-14",
                      .failure = Verdict::fail_fp8_state,
                      .applies = graph_cells_with_delayed_scaling,
                      .legs = compared_legs,
                      .judge = judge_fp8_history,
                      .scenario = judge_doubling_range},
      CheckDefinition{.id = "NUM-15",
                      .failure = Verdict::fail_fp8_state,
                      .applies = graph_cells_with_delayed_scaling,
                      .legs = graph_legs,
                      .judge = judge_fp8_updates},
      CheckDefinition{.id = "NUM-16",
                      .failure = Verdict::fail_fp8_state,
                      .applies = graph_cells_with_fp8,
                      .legs = graph_legs,
                      .judge = judge_weight_refreshes},
      CheckDefinition{.id = "NUM-17",
                      .failure = Verdict::fail_state_frozen,
                      .applies = graph_cells,
                      .legs = compared_legs,
                      .judge = judge_advancing_state},
      CheckDefinition{.id = "NUM-19",
                      .failure = Verdict::fail_state_frozen,
                      .applies = graph_cells_that_clip,
                      .legs = compared_legs,
                      .judge = judge_clipping},
      CheckDefinition{.id = "NUM-20",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = graph_cells_with_experts,
                      .legs = instrumented_pair,
                      .judge = judge_routing},
      CheckDefinition{.id = "NUM-21",
                      .failure = Verdict::fail_truncation,
                      .applies = graph_cells_that_drop,
                      .legs = instrumented_pair,
                      .judge = judge_capacity,
                      .scenario = judge_full_capacity},
      CheckDefinition{.id = "NUM-23",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = graph_cells_with_scans,
                      .legs = instrumented_pair,
                      .judge = judge_scan_states},
      CheckDefinition{.id = "NUM-25",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = graph_cells_with_validation,
                      .legs = validation_legs,
                      .judge = judge_validation},
      CheckDefinition{.id = "NUM-26",
                      .failure = Verdict::fail_numeric_mismatch,
                      .judges_graphs = GraphsOf::layers,
                      .applies = graph_cells_with_partial_batches,
                      .legs = compared_legs,
                      .judge = judge_partial_batches},
      CheckDefinition{.id = "NUM-29",
                      .failure = Verdict::fail_numeric_mismatch,
                      .judges_graphs = GraphsOf::anything,
                      .applies = restarted_cells,
                      .legs = restart_legs,
                      .judge = judge_restart},
      CheckDefinition{.id = "NUM-30",
                      .failure = Verdict::fail_nondeterminism,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = repeated_graph_legs,
                      .judge = judge_repeated_captures},
      CheckDefinition{.id = "NUM-32",
                      .failure = Verdict::fail_numeric_mismatch,
                      .applies = cells_with_graphed_training,
                      .legs = graphed_training_legs,
                      .judge = judge_graphed_training},
      CheckDefinition{.id = "NUM-33",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_suite,
                      .scenario = judge_device_comparator},
      CheckDefinition{.id = "NUM-34",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_numeric_mismatch,
                      .scenario = judge_device_agreement},
  };
  return table;
}

}  // namespace cgconform::suites::checks
