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
#include <vector>

#include <fmt/format.h>

#include "suites/checks/leg_choice.hpp"
#include "suites/checks/leg_equality.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"
#include "suites/pipeline_passes.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::ExecutionRecord;
using workloads::GatherRecord;
using workloads::GraphRecord;
using workloads::LegRecord;

constexpr std::string_view gather_label = "parameter gather";

/// What lies outside of layers, as records name it: the embedding and the head.
constexpr std::int32_t outside_of_layers = -1;

/// The layer of each parameter in a bucket, by the bucket's number.
using Buckets = std::map<std::int32_t, std::vector<std::int32_t>>;

/// A schedule call: its step, and whether it is a validation.
using Call = std::pair<std::int32_t, bool>;

/// Launches of a bucket's gather, by step and whether a capture recorded them.
using GatherCounts = std::map<std::pair<std::int32_t, bool>, std::uint64_t>;

Buckets buckets_of(const LegRecord& record) {
  Buckets buckets;
  for (const GatherRecord& gather : record.gathers) buckets.emplace(gather.bucket, gather.layers);
  return buckets;
}

/// The layers of the rank's stage, and what lies outside of them on its first and last stage.
std::set<std::int32_t> planned_layers(const JudgeContext& context) {
  std::set<std::int32_t> layers;
  for (const LayerSpan& span : stage_chunks(context.cell, context.rank)) {
    for (std::int32_t i = 0; i < span.count; ++i) layers.insert(span.first + i);
  }
  const std::int32_t stage = stage_of(context.cell, context.rank);
  const bool last = stage + 1 == context.cell.config.pipeline_model_parallel_size;
  if (stage == 0 || last) layers.insert(outside_of_layers);
  return layers;
}

/// Experts that no other rank holds are stepped whole, and not gathered.
bool is_gathered(const matrix::Cell& cell, std::string_view weight) {
  return !weight.starts_with("weight:mlp.experts.") ||
         cell.config.data_parallel_size > cell.config.expert_model_parallel_size;
}

/// Parameters that the leg has stepped and that are gathered, counted by layer: their weights are
/// observed.
std::map<std::int32_t, std::size_t> parameters_by_layer(const matrix::Cell& cell,
                                                        const LegRecord& record) {
  std::map<std::int32_t, std::set<std::string>> names;
  for (const auto& observation : record.observations) {
    if (observation.quantity != workloads::ObservedQuantity::weight) continue;
    if (!is_gathered(cell, observation.where.tensor)) continue;
    names[observation.where.layer].insert(observation.where.tensor.text());
  }
  std::map<std::int32_t, std::size_t> counts;
  for (const auto& [layer, of_layer] : names) counts[layer] = of_layer.size();
  return counts;
}

std::string layer_text(std::int32_t layer) {
  return layer == outside_of_layers ? "what lies outside of layers"
                                    : fmt::format("layer {}", layer);
}

/// Buckets that do not hold each parameter of the rank's stage once.
std::optional<std::string> find_uncovered(const JudgeContext& context, const LegRecord& record,
                                          const Buckets& buckets) {
  std::map<std::int32_t, std::size_t> held;
  for (const auto& [bucket, layers] : buckets) {
    if (layers.empty()) return fmt::format("bucket {} holds no parameters", bucket);
    for (const std::int32_t layer : layers) ++held[layer];
  }
  const std::set<std::int32_t> planned = planned_layers(context);
  auto trained = parameters_by_layer(context.cell, record);
  for (const std::int32_t layer : planned) {
    if (held[layer] == 0) return fmt::format("no bucket holds {}", layer_text(layer));
    if (held[layer] == trained[layer]) continue;
    return fmt::format("buckets hold {} parameters of {}, the leg steps {}", held[layer],
                       layer_text(layer), trained[layer]);
  }
  for (const auto& [layer, count] : held) {
    if (planned.contains(layer)) continue;
    return fmt::format("a bucket holds {}, which other stages have", layer_text(layer));
  }
  return std::nullopt;
}

/// What a leg must launch of each bucket: one gather a schedule call. Not in the first step, where
/// all replicas have the same; its validation gathers. An iteration that becomes a graph gathers in
/// its first step too, once more while it is captured, and on the host no more when it is replayed.
GatherCounts planned_gathers(const JudgeContext& context, bool iterations) {
  const CoveragePlan plan = plan_coverage(context.cell, context.rank);
  GatherCounts counts;
  std::set<Call> calls;
  for (const PlannedExecution& execution : plan.executions) {
    if (execution.scope == optimizer_scope) continue;
    if (!calls.emplace(execution.step, execution.validation).second) continue;
    if (!iterations) {
      if (execution.step > 0 || execution.validation) ++counts[{execution.step, false}];
      continue;
    }
    const bool captured =
        execution.replayed &&
        plan.graphs.at(static_cast<std::size_t>(execution.graph)).capture_step == execution.step;
    if (captured || !execution.replayed) ++counts[{execution.step, captured}];
  }
  return counts;
}

struct Finding {
  Verdict verdict = Verdict::pass;
  std::string what;
};

/// Gathers that are not those of the plan, each bucket for itself.
std::optional<Finding> find_other_count(const LegRecord& record, const Buckets& buckets,
                                        const GatherCounts& planned) {
  std::map<std::int32_t, GatherCounts> seen;
  for (const GatherRecord& gather : record.gathers) {
    const auto bucket = buckets.find(gather.bucket);
    if (bucket == buckets.end() || bucket->second != gather.layers) {
      return Finding{Verdict::fail_coverage,
                     fmt::format("step {} gathers a bucket {} of other parameters than the eager "
                                 "leg's",
                                 gather.step, gather.bucket)};
    }
    ++seen[gather.bucket][{gather.step, gather.captured}];
  }
  for (const auto& [bucket, layers] : buckets) {
    GatherCounts all = planned;
    for (const auto& [place, count] : seen[bucket]) all.try_emplace(place, 0);
    for (const auto& [place, unused] : all) {
      const auto found = planned.find(place);
      const std::uint64_t due = found == planned.end() ? 0 : found->second;
      const std::uint64_t times = seen[bucket][place];
      if (times == due) continue;
      return Finding{times < due ? Verdict::fail_stale_input : Verdict::fail_coverage,
                     fmt::format("step {} gathers bucket {} {} times{}, {} are due", place.first,
                                 bucket, times, place.second ? " in a capture" : "", due)};
    }
  }
  return std::nullopt;
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

/// Of an iteration in parts all but the first one are replayed after its gathers.
bool begins_call(const GraphRecord& graph) {
  if (!graph.name.starts_with("iteration")) return false;
  return graph.name.find(" part ") == std::string::npos || graph.name.ends_with(" part 0");
}

std::optional<std::string> find_bucket_not_captured(const LegRecord& record,
                                                    const Buckets& buckets) {
  for (const GraphRecord& graph : record.graphs) {
    if (!begins_call(graph)) continue;
    for (const auto& [bucket, layers] : buckets) {
      const std::string label = fmt::format("{} bucket {}", gather_label, bucket);
      const bool holds = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                     [&](const auto& node) { return node.label.ends_with(label); });
      if (holds) continue;
      return fmt::format(
          "'{}' does not gather bucket {}: its replays read parameters of an "
          "earlier step",
          graph.name, bucket);
    }
  }
  return std::nullopt;
}

/// A forward of a layer before the gather, in its own schedule call, of a bucket that it reads.
std::optional<std::string> find_late_gather(const LegRecord& record, const Buckets& buckets) {
  std::optional<Call> call;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < record.executions.size(); ++i) {
    const ExecutionRecord& execution = record.executions[i];
    const Call own{execution.step, execution.validation};
    if (call != own) begin = i;
    call = own;
    // In the first step nothing has changed since all replicas had the same.
    if (execution.step == 0 && !execution.validation) continue;
    if (!execution.forward || execution.layer < 0) continue;
    for (const auto& [bucket, layers] : buckets) {
      if (std::find(layers.begin(), layers.end(), execution.layer) == layers.end()) continue;
      const bool gathered = std::any_of(
          record.gathers.begin(), record.gathers.end(), [&, number = bucket](const auto& gather) {
            return gather.step == execution.step && gather.bucket == number &&
                   gather.executions_before >= begin && gather.executions_before <= i;
          });
      if (gathered) continue;
      return fmt::format("step {}{} micro-batch {} runs layer {} before bucket {} is gathered",
                         execution.step, execution.validation ? " validation" : "",
                         execution.microbatch, execution.layer, bucket);
    }
  }
  return std::nullopt;
}

/// What is wrong with the gathers of a leg; `buckets` are those of the eager leg.
std::optional<Finding> find_wrong_gather(const JudgeContext& context, const LegRecord& record,
                                         const Buckets& buckets, bool iterations) {
  if (auto other = find_other_count(record, buckets, planned_gathers(context, iterations))) {
    return other;
  }
  const auto stale =
      iterations ? find_bucket_not_captured(record, buckets) : find_late_gather(record, buckets);
  if (stale) return Finding{Verdict::fail_stale_input, *stale};
  return std::nullopt;
}

}  // namespace

bool graph_cells_that_gather(const matrix::Cell& cell) {
  return graph_cells(cell) && cell.config.data_parallel_size > 1 &&
         cell.config.use_distributed_optimizer && cell.config.overlap_param_gather;
}

CheckResult judge_parameter_gathers(JudgeContext& context) {
  std::size_t buckets_seen = 0;
  const bool iterations = captures_iterations(context.cell);
  for (const auto& [expected, actual] : compared_pairs(context.cell)) {
    const LegRecord& eager = context.legs.record(expected);
    const LegRecord& graph = context.legs.record(actual);
    const Buckets buckets = buckets_of(eager);
    if (const auto uncovered = find_uncovered(context, eager, buckets)) {
      return failed_leg(Verdict::fail_coverage, expected, *uncovered);
    }
    if (const auto wrong = find_wrong_gather(context, eager, buckets, false)) {
      return failed_leg(wrong->verdict, expected, wrong->what);
    }
    if (const auto inside = find_gather_in_layer(graph)) {
      return failed_leg(Verdict::fail_capture, actual, *inside);
    }
    if (const auto wrong = find_wrong_gather(context, graph, buckets, iterations)) {
      return failed_leg(wrong->verdict, actual, wrong->what);
    }
    buckets_seen = buckets.size();
  }
  return judge_equality(
      context,
      fmt::format("with {} buckets of all parameters, each broadcast share by share {}; gradients "
                  "are all-reduced, so no reduce-scatter was looked at, and replicas were not "
                  "compared with each other",
                  buckets_seen,
                  iterations ? "in the graphs of iterations" : "before the forwards that read it"));
}

}  // namespace cgconform::suites::checks
