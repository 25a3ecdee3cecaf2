#include "suites/checks/launch_agreement.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "suites/checks/leg_choice.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::CommunicatorPoll;
using workloads::error_category_name;
using workloads::ErrorCategory;
using workloads::ExecutionRecord;
using workloads::GraphRecord;
using workloads::LaunchAgreements;
using workloads::LegRecord;
using workloads::NodeKind;

bool communicates(const GraphRecord& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const workloads::GraphNode& node) {
    return node.kind == NodeKind::communication;
  });
}

/// What must have been agreed on, from what the leg ran.
LaunchAgreements needed_agreements(const matrix::Cell& cell, const LegRecord& record) {
  const bool layers_are_shared = cell.config.tensor_model_parallel_size > 1;
  LaunchAgreements needed;
  std::set<std::pair<std::int32_t, bool>> calls_of_layers;
  std::set<std::pair<std::int32_t, bool>> captured_calls;
  std::set<std::pair<std::int32_t, bool>> replayed_calls;
  for (const ExecutionRecord& execution : record.executions) {
    // The optimizer's step follows from its iteration, which the ranks agree on.
    if (execution.scope == optimizer_scope) continue;
    if (execution.layer >= 0) {
      calls_of_layers.insert({execution.step, execution.validation});
      if (layers_are_shared) ++(execution.replayed ? needed.replays : needed.eager);
    } else if (!execution.replayed) {
      ++needed.eager;
    } else {
      // An iteration of several graphs is one call, callables are one each.
      const std::pair call{execution.step, execution.validation};
      const GraphRecord& graph = record.graphs.at(static_cast<std::size_t>(execution.graph));
      if (graph.capture_step == execution.step) captured_calls.insert(call);
      if (!communicates(graph)) continue;
      if (execution.microbatch >= 0) ++needed.replays;
      if (execution.microbatch < 0) replayed_calls.insert(call);
    }
  }
  needed.eager += calls_of_layers.size();
  needed.replays += replayed_calls.size();
  needed.captures = captured_calls.size();
  return needed;
}

Verdict verdict_of(ErrorCategory category) {
  switch (category) {
    case ErrorCategory::communicator_mismatch:
      return Verdict::fail_comm_nonuniform;
    case ErrorCategory::communicator_timeout:
      return Verdict::hang;
    default:
      return Verdict::crash;
  }
}

}  // namespace

CheckResult judge_launch_agreement(JudgeContext& context) {
  LaunchAgreements all;
  for (const auto& request : graph_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    const LaunchAgreements& seen = record.agreements;
    const LaunchAgreements needed = needed_agreements(context.cell, record);
    const bool complete = seen.eager >= needed.eager && seen.captures >= needed.captures &&
                          seen.replays >= needed.replays;
    if (!complete || needed.eager + needed.captures + needed.replays == 0) {
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format(
                  "{} leg: the ranks had to agree on {} eager calls, {} captures and {} replays, "
                  "and agreed on {}, {} and {}",
                  leg_name(request), needed.eager, needed.captures, needed.replays, seen.eager,
                  seen.captures, seen.replays)};
    }
    all.eager += seen.eager;
    all.captures += seen.captures;
    all.replays += seen.replays;
    all.slowest_milliseconds = std::max(all.slowest_milliseconds, seen.slowest_milliseconds);
  }
  return {.detail = fmt::format("the ranks agreed on {} eager calls, {} captures and {} replays; "
                                "the longest wait was {:.1f} ms",
                                all.eager, all.captures, all.replays, all.slowest_milliseconds)};
}

CheckResult judge_async_errors(JudgeContext& context) {
  std::uint64_t polls = 0;
  for (const auto& request : graph_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    for (const CommunicatorPoll& poll : record.polls) {
      polls += poll.polls;
      if (poll.first_error == ErrorCategory::success) continue;
      return {
          .verdict = verdict_of(poll.first_error),
          .detail = fmt::format(
              "{} leg: rank {}, communicator '{}', phase {}: asynchronous error {} ({})",
              leg_name(request), context.rank, poll.communicator, workloads::phase_name(poll.phase),
              error_category_name(poll.first_error), static_cast<int>(poll.first_error))};
    }
    for (const workloads::PhaseTiming& timing : record.timings) {
      const bool polled =
          std::any_of(record.polls.begin(), record.polls.end(),
                      [&](const CommunicatorPoll& poll) { return poll.phase == timing.phase; });
      if (polled) continue;
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format("{} leg: no communicator was asked after phase {}",
                                    leg_name(request), workloads::phase_name(timing.phase))};
    }
  }
  if (polls == 0) return {.verdict = Verdict::fail_coverage, .detail = "no communicator was asked"};
  return {.detail = fmt::format("no communicator had failed, asked {} times", polls)};
}

}  // namespace cgconform::suites::checks
