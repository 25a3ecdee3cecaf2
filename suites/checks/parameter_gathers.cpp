#include "suites/checks/parameter_gathers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "suites/checks/leg_choice.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::ExecutionRecord;
using workloads::GatherRecord;
using workloads::GraphRecord;
using workloads::LegRecord;

constexpr std::string_view gather_label = "parameter gather";

/// Buckets by the layers whose parameters they hold; -1 for what lies outside of layers.
using BucketsByLayer = std::map<std::int32_t, std::set<std::int32_t>>;

BucketsByLayer buckets_by_layer(const LegRecord& record) {
  BucketsByLayer buckets;
  for (const GatherRecord& gather : record.gathers) {
    for (const std::int32_t layer : gather.layers) buckets[layer].insert(gather.bucket);
  }
  return buckets;
}

/// How often each bucket was gathered, by step.
std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t> gather_counts(
    const LegRecord& record) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t> counts;
  for (const GatherRecord& gather : record.gathers) ++counts[{gather.step, gather.bucket}];
  return counts;
}

std::optional<std::string> find_gather_in_layer(const LegRecord& record) {
  for (const GraphRecord& graph : record.graphs) {
    if (graph.layer < 0) continue;
    for (const auto& node : graph.nodes) {
      if (node.label.find(gather_label) == std::string::npos) continue;
      return fmt::format("'{}' holds '{}': the hook was on while the layer was captured",
                         graph.name, node.label);
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_bucket_not_captured(const LegRecord& record,
                                                    const BucketsByLayer& buckets) {
  for (const GraphRecord& graph : record.graphs) {
    if (!graph.name.starts_with("iteration")) continue;
    for (const auto& [layer, held] : buckets) {
      for (const std::int32_t bucket : held) {
        const std::string label = fmt::format("{} bucket {}", gather_label, bucket);
        const bool holds =
            std::any_of(graph.nodes.begin(), graph.nodes.end(),
                        [&](const auto& node) { return node.label.ends_with(label); });
        if (holds) continue;
        return fmt::format(
            "'{}' does not gather bucket {}: its replays read parameters of an "
            "earlier step",
            graph.name, bucket);
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_other_count(const LegRecord& expected, const LegRecord& actual) {
  const auto wanted = gather_counts(expected);
  const auto seen = gather_counts(actual);
  for (const auto& [key, count] : wanted) {
    const auto found = seen.find(key);
    const std::uint64_t times = found == seen.end() ? 0 : found->second;
    if (times == count) continue;
    return fmt::format("step {} gathers bucket {} {} times, eager {} times", key.first, key.second,
                       times, count);
  }
  return std::nullopt;
}

std::optional<std::string> find_late_gather(const LegRecord& record,
                                            const BucketsByLayer& buckets) {
  for (std::size_t i = 0; i < record.executions.size(); ++i) {
    const ExecutionRecord& execution = record.executions[i];
    const auto held = buckets.find(execution.layer);
    // In the first step nothing has changed since all replicas had the same.
    if (!execution.replayed || !execution.forward || execution.step == 0) continue;
    if (execution.layer < 0 || held == buckets.end()) continue;
    for (const std::int32_t bucket : held->second) {
      const bool gathered = std::any_of(
          record.gathers.begin(), record.gathers.end(), [&](const GatherRecord& gather) {
            return gather.step == execution.step && gather.bucket == bucket &&
                   gather.executions_before <= i;
          });
      if (gathered) continue;
      return fmt::format("step {} micro-batch {} replays layer {} before bucket {} is gathered",
                         execution.step, execution.microbatch, execution.layer, bucket);
    }
  }
  return std::nullopt;
}

CheckResult fail(Verdict verdict, const workloads::LegRequest& leg, std::string_view what) {
  return {.verdict = verdict, .detail = fmt::format("{} leg: {}", leg_name(leg), what)};
}

}  // namespace

bool graph_cells_that_gather(const matrix::Cell& cell) {
  return graph_cells(cell) && cell.config.data_parallel_size > 1 &&
         cell.config.use_distributed_optimizer && cell.config.overlap_param_gather;
}

CheckResult judge_parameter_gathers(JudgeContext& context) {
  std::uint64_t tensors = 0;
  std::size_t buckets_seen = 0;
  for (const auto& [expected, actual] : compared_pairs(context.cell)) {
    const LegRecord& eager = context.legs.record(expected);
    const LegRecord& graph = context.legs.record(actual);
    const BucketsByLayer buckets = buckets_by_layer(eager);
    if (buckets.empty()) {
      return fail(Verdict::fail_coverage, expected, "no parameters were gathered");
    }
    if (const auto inside = find_gather_in_layer(graph)) {
      return fail(Verdict::fail_capture, actual, *inside);
    }
    const bool iterations = captures_iterations(context.cell);
    auto stale =
        iterations ? find_bucket_not_captured(graph, buckets) : find_other_count(eager, graph);
    if (!stale && !iterations) stale = find_late_gather(graph, buckets);
    if (stale) return fail(Verdict::fail_stale_input, actual, *stale);
    const LegDifference& difference = context.legs.difference(expected, actual);
    if (const ObservationOutcome* first = difference.first()) {
      CheckResult result = fail(Verdict::fail_numeric_mismatch, actual,
                                fmt::format("{} is not that of the {} leg",
                                            location_text(first->where), leg_name(expected)));
      result.divergence = divergence_of(*first);
      return result;
    }
    tensors += difference.outcomes.size();
    std::set<std::int32_t> all;
    for (const auto& [layer, held] : buckets) all.insert(held.begin(), held.end());
    buckets_seen = all.size();
  }
  return {.detail =
              fmt::format("{} tensors equal eager, with {} buckets of parameters gathered {}",
                          tensors, buckets_seen,
                          captures_iterations(context.cell) ? "in the graphs of iterations"
                                                            : "before the replays that read them")};
}

}  // namespace cgconform::suites::checks
