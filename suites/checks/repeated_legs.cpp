#include "suites/checks/repeated_legs.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "suites/checks/leg_choice.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::GraphNode;
using workloads::GraphRecord;
using workloads::LegRecord;
using workloads::ObservedQuantity;

bool same_node(const GraphNode& a, const GraphNode& b) {
  return a.kind == b.kind && a.op_name == b.op_name && a.label == b.label &&
         a.dependencies == b.dependencies;
}

std::optional<std::string> find_other_graph(const LegRecord& a, const LegRecord& b) {
  if (a.graphs.size() != b.graphs.size()) {
    return fmt::format("{} graphs in the first run, {} in the second", a.graphs.size(),
                       b.graphs.size());
  }
  for (std::size_t i = 0; i < a.graphs.size(); ++i) {
    const GraphRecord& first = a.graphs[i];
    const GraphRecord& second = b.graphs[i];
    if (first.name != second.name || first.nodes.size() != second.nodes.size()) {
      return fmt::format("'{}' has {} nodes in the first run, '{}' {} in the second", first.name,
                         first.nodes.size(), second.name, second.nodes.size());
    }
    const auto [node, other] =
        std::mismatch(first.nodes.begin(), first.nodes.end(), second.nodes.begin(), same_node);
    if (node != first.nodes.end()) {
      return fmt::format("node {} of '{}' is '{}' in the first run and '{}' in the second",
                         node - first.nodes.begin(), first.name, node->label, other->label);
    }
  }
  return std::nullopt;
}

/// The first difference that is training's, and how many of its tensors were compared.
struct TrainingDifference {
  const ObservationOutcome* first = nullptr;
  const ObservationOutcome* random_state = nullptr;
  std::uint64_t compared = 0;
};

TrainingDifference of_training(const LegDifference& difference) {
  TrainingDifference training;
  for (const ObservationOutcome& outcome : difference.outcomes) {
    if (outcome.where.validation) continue;
    ++training.compared;
    if (!outcome.differs()) continue;
    if (training.first == nullptr) training.first = &outcome;
    const bool random = outcome.quantity == ObservedQuantity::rng_state;
    if (random && training.random_state == nullptr) training.random_state = &outcome;
  }
  return training;
}

}  // namespace

std::vector<workloads::LegRequest> validation_legs(const matrix::Cell& /*cell*/) {
  return {graph_leg(), unvalidated_graph_leg()};
}

CheckResult judge_validation(JudgeContext& context) {
  const auto& executions = context.legs.record(graph_leg()).executions;
  const bool validated =
      std::any_of(executions.begin(), executions.end(),
                  [](const workloads::ExecutionRecord& execution) { return execution.validation; });
  const TrainingDifference training =
      of_training(context.legs.difference(unvalidated_graph_leg(), graph_leg()));
  if (!validated || training.compared == 0) {
    return {.verdict = Verdict::fail_coverage,
            .detail = validated ? "nothing of training was compared" : "nothing was validated"};
  }
  if (training.first != nullptr) {
    const bool random = training.random_state != nullptr;
    const ObservationOutcome& outcome = random ? *training.random_state : *training.first;
    return {.verdict = random ? Verdict::fail_rng_state : Verdict::fail_numeric_mismatch,
            .detail = fmt::format("validation changes training: {} differs from the run without "
                                  "validation",
                                  location_text(outcome.where)),
            .divergence = divergence_of(outcome)};
  }
  return {.detail = fmt::format("{} tensors of training are equal with and without validation",
                                training.compared)};
}

CheckResult judge_repeated_captures(JudgeContext& context) {
  const auto requests = repeated_graph_legs(context.cell);
  const LegRecord& first = context.legs.record(requests.front());
  const LegRecord& second = context.legs.record(requests.back());
  if (auto other = find_other_graph(first, second)) {
    return {.verdict = Verdict::fail_nondeterminism,
            .detail = fmt::format("two captures differ: {}", *other)};
  }
  const LegDifference& difference = context.legs.difference(requests.front(), requests.back());
  if (const ObservationOutcome* outcome = difference.first()) {
    return {.verdict = Verdict::fail_nondeterminism,
            .detail = fmt::format("two graph runs differ: {}", location_text(outcome->where)),
            .divergence = divergence_of(*outcome)};
  }
  if (first.graphs.empty() || difference.outcomes.empty()) {
    return {.verdict = Verdict::fail_coverage, .detail = "nothing was captured or compared"};
  }
  return {.detail = fmt::format("{} graphs and {} tensors of two runs are equal",
                                first.graphs.size(), difference.outcomes.size())};
}

}  // namespace cgconform::suites::checks
