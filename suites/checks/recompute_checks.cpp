#include "suites/checks/recompute_checks.hpp"

#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "suites/cell_plan.hpp"
#include "suites/checks/difference_text.hpp"
#include "suites/leg_set.hpp"
#include "suites/planned_pieces.hpp"
#include "suites/recompute_plan.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::LegRequest;
using workloads::Observation;
using workloads::ObservedQuantity;

/// Step, micro-batch, layer and name of a mask.
using MaskKey = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::string>;

MaskKey key_of(const Observation& mask) {
  return {mask.where.step, mask.where.microbatch, mask.where.layer, mask.where.tensor.text()};
}

/// Training executions whose attention ran from a graph of single layers or modules.
std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t>> replayed_attentions(
    const JudgeContext& context) {
  std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t>> replayed;
  for (const PlannedExecution& execution : plan_coverage(context.cell, context.rank).executions) {
    const bool attention = holds_module(execution.scope, "attn");
    if (execution.replayed && attention && execution.layer >= 0) {
      replayed.emplace(execution.step, execution.microbatch, execution.layer);
    }
  }
  return replayed;
}

std::map<MaskKey, std::size_t> masks_drawn_again(const std::vector<Observation>& observations) {
  std::map<MaskKey, std::size_t> again;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    if (observations[i].quantity == ObservedQuantity::recomputed_mask) {
      again.insert_or_assign(key_of(observations[i]), i);
    }
  }
  return again;
}

constexpr std::initializer_list<ObservedQuantity> results{
    ObservedQuantity::layer_output, ObservedQuantity::loss,   ObservedQuantity::layer_grad_input,
    ObservedQuantity::main_grad,    ObservedQuantity::weight, ObservedQuantity::optimizer_state};

/// Pairs of legs with and without recompute, the latter first.
std::vector<std::pair<LegRequest, LegRequest>> pairs_of(const matrix::Cell& cell) {
  std::vector<std::pair<LegRequest, LegRequest>> pairs{
      {eager_leg_without_recompute(), eager_leg()}};
  if (is_graph_cell(cell)) pairs.emplace_back(graph_leg_without_recompute(), graph_leg());
  return pairs;
}

}  // namespace

bool graph_cells_that_redraw(const matrix::Cell& cell) {
  return is_graph_cell(cell) && redraws_masks(cell);
}

bool cells_with_recompute(const matrix::Cell& cell) {
  return asks_for_recompute(cell);
}

std::vector<LegRequest> recompute_legs(const matrix::Cell& cell) {
  std::vector<LegRequest> legs;
  for (const auto& [without, with] : pairs_of(cell)) {
    legs.push_back(without);
    legs.push_back(with);
  }
  return legs;
}

CheckResult judge_recomputed_masks(JudgeContext& context) {
  const auto& observations = context.legs.record(instrumented_graph_leg()).observations;
  const auto replayed = replayed_attentions(context);
  const auto again = masks_drawn_again(observations);
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& mask = observations[i];
    if (mask.quantity != ObservedQuantity::dropout_mask || mask.where.validation) continue;
    const bool from_graph =
        replayed.contains({mask.where.step, mask.where.microbatch, mask.where.layer});
    if (!redraws_mask(context.cell, mask.where.layer, mask.where.tensor, from_graph)) continue;
    const auto found = again.find(key_of(mask));
    if (found == again.end()) {
      return {
          .verdict = Verdict::fail_rng_recompute,
          .detail = fmt::format("the backward did not draw {} again", location_text(mask.where))};
    }
    pairs.emplace_back(i, found->second);
  }
  if (pairs.empty() && !stage_redraws_masks(context.cell, context.rank)) {
    return {.detail = "no layer of this stage draws masks again"};
  }
  if (pairs.empty()) {
    return {.verdict = Verdict::fail_coverage, .detail = "no dropout mask was drawn again"};
  }
  const auto outcomes = context.legs.compare_within(instrumented_graph_leg(), pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (outcomes[i].equal()) continue;
    return {.verdict = Verdict::fail_rng_recompute,
            .detail = fmt::format("{}: {} of {} elements of the recomputed mask differ from that "
                                  "of the forward",
                                  location_text(observations[pairs[i].first].where),
                                  outcomes[i].bad_count, outcomes[i].element_count)};
  }
  return {.detail = fmt::format("{} recomputed masks equal those of the forward", pairs.size())};
}

CheckResult judge_recompute_on_and_off(JudgeContext& context) {
  const auto launches = [&](const LegRequest& leg) {
    return context.legs.record(leg).totals.eager_launches;
  };
  if (stage_recomputes(context.cell, context.rank) &&
      launches(eager_leg()) <= launches(eager_leg_without_recompute())) {
    return {
        .verdict = Verdict::fail_coverage,
        .detail = fmt::format("eager launched {} ops with recompute and {} without: nothing was "
                              "recomputed",
                              launches(eager_leg()), launches(eager_leg_without_recompute()))};
  }
  std::uint64_t compared = 0;
  for (const auto& [without, with] : pairs_of(context.cell)) {
    const LegDifference& difference = context.legs.difference(without, with);
    if (const ObservationOutcome* first = difference.first(results)) {
      return {.verdict = Verdict::fail_numeric_mismatch,
              .detail = describe_difference(*first, without, with),
              .divergence = divergence_of(*first)};
    }
    compared += difference.compared(results);
  }
  if (compared == 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "no gradient was observed"};
  }
  return {.verdict = is_graph_cell(context.cell) ? Verdict::pass : Verdict::baseline,
          .detail = fmt::format("{} tensors are equal with recompute on and off", compared)};
}

}  // namespace cgconform::suites::checks
