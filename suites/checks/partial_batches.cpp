#include "suites/checks/partial_batches.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "suites/checks/difference_text.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"
#include "workloads/training/leg_record.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::ExecutionRecord;

/// How a step's partial micro-batch ran: its layers, or its whole iteration.
struct Path {
  std::uint64_t replayed = 0;
  std::uint64_t eager = 0;
};

/// By step, of the steps with a partial micro-batch that come after the first replay.
std::map<std::int32_t, Path> paths_taken(const matrix::Cell& cell,
                                         const workloads::LegRecord& record) {
  std::map<std::int32_t, Path> paths;
  std::optional<std::int32_t> first_replayed;
  for (const ExecutionRecord& execution : record.executions) {
    if (execution.validation || execution.scope == optimizer_scope) continue;
    if (execution.replayed && !first_replayed) first_replayed = execution.step;
    const bool last =
        execution.microbatch < 0 || execution.microbatch == cell.config.num_microbatches - 1;
    if (!last || !has_partial_batch(cell, execution.step) || !first_replayed) continue;
    Path& path = paths[execution.step];
    ++(execution.replayed ? path.replayed : path.eager);
  }
  return paths;
}

}  // namespace

bool graph_cells_with_partial_batches(const matrix::Cell& cell) {
  return graph_cells(cell) && cell.shape.last_batch != matrix::LastBatch::full;
}

CheckResult judge_partial_batches(JudgeContext& context) {
  const bool eager = context.cell.shape.last_batch == matrix::LastBatch::eager;
  const std::string_view wanted = eager ? "eagerly" : "from graphs";
  const auto paths = paths_taken(context.cell, context.legs.record(graph_leg()));
  if (paths.empty()) {
    return {.verdict = Verdict::fail_coverage,
            .detail = "no partial micro-batch came after a replay"};
  }
  for (const auto& [step, path] : paths) {
    if (eager ? path.replayed == 0 : path.replayed > 0) continue;
    return {.verdict = Verdict::fail_coverage,
            .detail = fmt::format("the partial micro-batch of step {} was to run {}: {} replays, "
                                  "{} eager executions",
                                  step, wanted, path.replayed, path.eager)};
  }
  std::uint64_t compared = 0;
  for (const auto& [expected, actual] : compared_pairs(context.cell)) {
    const LegDifference& difference = context.legs.difference(expected, actual);
    const ObservationOutcome* first = difference.first();
    // What differs before a partial micro-batch has another cause.
    if (first != nullptr && has_partial_batch(context.cell, first->where.step)) {
      return {.verdict = Verdict::fail_numeric_mismatch,
              .detail = describe_difference(*first, expected, actual),
              .divergence = divergence_of(*first)};
    }
    compared += static_cast<std::uint64_t>(
        std::count_if(difference.outcomes.begin(), difference.outcomes.end(),
                      [&](const ObservationOutcome& outcome) {
                        return has_partial_batch(context.cell, outcome.where.step);
                      }));
  }
  if (compared == 0) {
    return {.verdict = Verdict::fail_coverage,
            .detail = "nothing was observed in steps with a partial micro-batch"};
  }
  return {.detail = fmt::format("{} partial micro-batches ran {}, and {} tensors of their steps "
                                "equal eager's",
                                paths.size(), wanted, compared)};
}

}  // namespace cgconform::suites::checks
