#include "suites/checks/fp8_checks.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "matrix/layer_modules.hpp"
#include "matrix/moe_layers.hpp"
#include "suites/checks/difference_text.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"
#include "suites/pipeline_passes.hpp"
#include "workloads/layers/fp8_state.hpp"
#include "workloads/lifecycle/doubling_range.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::DoublingRange;
using workloads::LegRequest;
using workloads::Observation;

constexpr std::string_view magnitudes_name = "fp8 amax";
constexpr std::string_view updates_name = "fp8 updates";
constexpr std::string_view refreshes_name = "fp8 weight refreshes";

CheckResult wrong(std::string detail) {
  return {.verdict = Verdict::fail_fp8_state, .detail = std::move(detail)};
}

CheckResult not_seen(std::string_view what) {
  return {.verdict = Verdict::fail_coverage, .detail = fmt::format("{} was not observed", what)};
}

/// Two observations of one tensor, in steps that follow each other.
std::vector<std::pair<std::size_t, std::size_t>> successive(
    const std::vector<Observation>& observations, std::string_view tensor) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::optional<std::size_t> before;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    if (observations[i].where.tensor != tensor) continue;
    if (before) pairs.emplace_back(*before, i);
    before = i;
  }
  return pairs;
}

/// Ranks that reduce magnitudes together.
std::int32_t amax_ranks(const matrix::Cell& cell) {
  const std::int32_t parts = cell.config.tensor_model_parallel_size;
  return cell.config.tp_only_amax_red ? parts : parts * cell.config.data_parallel_size;
}

/// The first difference of fp8 state, where nothing differs in an earlier step.
const ObservationOutcome* first_in_state(const LegDifference& difference) {
  const ObservationOutcome* first = difference.first();
  if (first == nullptr) return nullptr;
  const auto found = std::find_if(
      difference.outcomes.begin(), difference.outcomes.end(), [&](const auto& outcome) {
        return outcome.differs() && outcome.where.tensor.starts_with("fp8 ") &&
               outcome.where.step == first->where.step;
      });
  return found == difference.outcomes.end() ? nullptr : &*found;
}

/// Compares a counter's successive values: `expected(step)` is the growth up to that step.
template <typename Expected>
CheckResult judge_counter(JudgeContext& context, std::string_view tensor,
                          const Expected& expected) {
  std::size_t compared = 0;
  for (const LegRequest& leg : graph_legs(context.cell)) {
    const auto& observations = context.legs.record(leg).observations;
    const auto pairs = successive(observations, tensor);
    const auto outcomes = context.legs.compare_within(leg, pairs);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::int32_t step = observations[pairs[i].second].where.step;
      const double grown = outcomes[i].equal() ? 0.0 : outcomes[i].actual - outcomes[i].expected;
      if (grown != expected(step)) {
        return wrong(fmt::format("{} leg: {} grew by {} up to step {}, not by {}", leg_name(leg),
                                 tensor, grown, step, expected(step)));
      }
      ++compared;
    }
  }
  if (compared == 0) return not_seen(tensor);
  return {.detail = fmt::format("{} grew as planned in {} steps", tensor, compared)};
}

}  // namespace

bool graph_cells_with_fp8(const matrix::Cell& cell) {
  return graph_cells(cell) && cell.config.fp8 != matrix::Fp8Format::none;
}

bool graph_cells_with_delayed_scaling(const matrix::Cell& cell) {
  return graph_cells_with_fp8(cell) && cell.config.fp8_recipe == matrix::Fp8Recipe::delayed;
}

CheckResult judge_fp8_history(JudgeContext& context) {
  std::size_t compared = 0;
  for (const auto& [expected, actual] : compared_pairs(context.cell)) {
    const LegDifference& difference = context.legs.difference(expected, actual);
    if (const ObservationOutcome* first = first_in_state(difference)) {
      CheckResult result = wrong(describe_difference(*first, expected, actual));
      result.divergence = divergence_of(*first);
      return result;
    }
    const auto& observations = context.legs.record(actual).observations;
    const auto pairs = successive(observations, magnitudes_name);
    const auto outcomes = context.legs.compare_within(actual, pairs);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!outcomes[i].equal()) continue;
      return wrong(fmt::format("{} leg: the magnitudes of step {} are those of the step before",
                               leg_name(actual), observations[pairs[i].second].where.step));
    }
    compared += pairs.size();
  }
  if (compared == 0) return not_seen(magnitudes_name);
  return {.detail =
              fmt::format("history and scale are eager's and move, {} steps compared", compared)};
}

CheckResult judge_doubling_range(ScenarioContext& context) {
  DoublingRange eager(*context.device, nullptr);
  DoublingRange graphed(*context.device, context.faults);
  for (std::size_t step = 0; step < DoublingRange::steps; ++step) {
    eager.run_eagerly(step);
    graphed.run_from_graph(step);
    if (eager.state() != graphed.state()) {
      return wrong(fmt::format("step {}: history and scale of the graph are not eager's", step));
    }
    const float scale = graphed.state().front();
    if (scale != DoublingRange::expected_scale(step)) {
      return wrong(fmt::format("step {}: the scale is {}, not {}", step, scale,
                               DoublingRange::expected_scale(step)));
    }
    // The scale of the step before leaves just room for the doubled range; an older one does not,
    // and a younger one leaves half of it unused.
    if (step > 0 && graphed.largest_quantised() != DoublingRange::largest) {
      return wrong(
          fmt::format("step {}: the largest number became {}", step, graphed.largest_quantised()));
    }
  }
  return {.detail = fmt::format("{} steps of doubled range, none saturated", DoublingRange::steps)};
}

CheckResult judge_fp8_updates(JudgeContext& context) {
  const std::ptrdiff_t planned = captures_iterations(context.cell) ? 1 : 0;
  const bool reduced = amax_ranks(context.cell) > 1;
  for (const LegRequest& leg : graph_legs(context.cell)) {
    std::ptrdiff_t updates = 0;
    std::ptrdiff_t reductions = 0;
    for (const workloads::GraphRecord& graph : context.legs.record(leg).graphs) {
      for (const workloads::GraphNode& node : graph.nodes) {
        if (node.op_name == workloads::fp8_update_scales_op.name) ++updates;
        if (!node.communicator.empty() && node.label == workloads::amax_label) ++reductions;
      }
    }
    if (updates != planned) {
      return wrong(fmt::format("{} leg: graphs move the history on {} times a step, not {}",
                               leg_name(leg), updates, planned));
    }
    if (reductions != (reduced ? planned : 0)) {
      return wrong(fmt::format("{} leg: graphs reduce magnitudes {} times a step over {} ranks",
                               leg_name(leg), reductions, amax_ranks(context.cell)));
    }
  }
  return judge_counter(context, updates_name, [](std::int32_t /*step*/) { return 1.0; });
}

namespace {

/// Of attention: queries, keys and values together, or two ways down to latents and two up again,
/// and the projection; both of the MLP, of each expert that the rank holds and of the shared one;
/// of Mamba gate, values, states, steps and the projection. The router is not quantised.
std::int32_t quantised_weights_of_layer(const matrix::Cell& cell, std::int32_t layer) {
  using matrix::CudaGraphModule;
  const matrix::TrainingConfig& config = cell.config;
  const matrix::CudaGraphScope modules = matrix::modules_of_layer(config, layer);
  std::int32_t weights = 0;
  if (modules.contains(CudaGraphModule::attn)) weights += config.multi_latent_attention ? 5 : 2;
  if (matrix::is_moe_layer(cell, layer)) {
    weights += 2 * config.num_moe_experts.value_or(1) / config.expert_model_parallel_size;
    if (config.moe_shared_expert_intermediate_size.value_or(0) > 0) weights += 2;
  } else if (modules.contains(CudaGraphModule::mlp)) {
    weights += 2;
  }
  if (modules.contains(CudaGraphModule::mamba)) weights += 5;
  return weights;
}

}  // namespace

CheckResult judge_weight_refreshes(JudgeContext& context) {
  std::int32_t weights = 0;
  for (const LayerSpan& span : stage_chunks(context.cell, context.rank)) {
    for (std::int32_t layer = span.first; layer < span.first + span.count; ++layer) {
      weights += quantised_weights_of_layer(context.cell, layer);
    }
  }
  return judge_counter(context, refreshes_name,
                       [weights](std::int32_t /*step*/) { return static_cast<double>(weights); });
}

}  // namespace cgconform::suites::checks
