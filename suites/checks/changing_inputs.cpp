#include "suites/checks/changing_inputs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "suites/cell_plan.hpp"
#include "suites/checks/difference_text.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Observation;
using workloads::ObservedQuantity;

/// Indices of an input's observations of training, each with the one before.
std::vector<std::pair<std::size_t, std::size_t>> successive(
    const std::vector<Observation>& observations, std::string_view input) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    if (seen.quantity != ObservedQuantity::input_batch || seen.where.validation ||
        seen.where.tensor != input) {
      continue;
    }
    if (last) pairs.emplace_back(*last, i);
    last = i;
  }
  return pairs;
}

}  // namespace

CheckResult judge_changing_inputs(JudgeContext& context) {
  const auto expected = instrumented_eager_leg();
  const auto actual = instrumented_graph_leg();
  std::vector<std::string_view> inputs{"loss_mask"};
  if (context.cell.config.sequence_packing != matrix::SequencePacking::none) {
    inputs.emplace_back("cu_seqlens");
  }
  const auto& observations = context.legs.record(actual).observations;
  std::size_t changes = 0;
  for (const std::string_view input : inputs) {
    const auto pairs = successive(observations, input);
    const auto outcomes = context.legs.compare_within(actual, pairs);
    const auto changed = std::count_if(outcomes.begin(), outcomes.end(),
                                       [](const auto& outcome) { return !outcome.equal(); });
    if (changed == 0) {
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format("{} was the same in all {} calls", input, pairs.size() + 1)};
    }
    changes += static_cast<std::size_t>(changed);
  }
  constexpr std::array outputs{ObservedQuantity::input_batch, ObservedQuantity::layer_output,
                               ObservedQuantity::loss};
  std::size_t compared = 0;
  for (const ObservationOutcome& outcome : context.legs.difference(expected, actual).outcomes) {
    if (std::find(outputs.begin(), outputs.end(), outcome.quantity) == outputs.end()) continue;
    if (outcome.differs()) {
      return {.verdict = Verdict::fail_numeric_mismatch,
              .detail = describe_difference(outcome, expected, actual),
              .divergence = divergence_of(outcome)};
    }
    ++compared;
  }
  if (compared == 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "no output was observed"};
  }
  return {.detail = fmt::format("{} changes of {} optional inputs took effect: {} tensors equal "
                                "those of eager",
                                changes, inputs.size(), compared)};
}

}  // namespace cgconform::suites::checks
