#include "suites/checks/memory_footprint.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"
#include "suites/memory_measurements.hpp"
#include "workloads/capture/capture_plan.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::LegRecord;
using workloads::LegRequest;
using workloads::MemorySample;

/// The most bytes in blocks that graphs may need, as a multiple of eager's. Graphs keep static
/// inputs and outputs, and what every graph in flight saves for its backward, where eager hands
/// memory on from layer to layer; a pool of its own lets no graph use another's memory.
constexpr double shared_pool_factor = 4.0;
constexpr double separate_pools_factor = 8.0;

/// What a leg has at its end though it had less at its start; empty where it is back.
std::string what_is_left(const MemorySample& start, const MemorySample& end) {
  struct Level {
    const char* name;
    std::int64_t start;
    std::int64_t end;
  };
  const std::array levels{
      Level{"graphs", start.device.graphs, end.device.graphs},
      Level{"executables", start.device.executables, end.device.executables},
      Level{"user objects of graphs", start.device.user_objects, end.device.user_objects},
      Level{"bytes reserved for graphs", start.device.graph_bytes, end.device.graph_bytes},
      Level{"blocks", start.live_blocks, end.live_blocks},
      Level{"bytes in blocks", start.active_bytes, end.active_bytes},
      Level{"bytes in segments", start.reserved_bytes, end.reserved_bytes},
  };
  const auto* raised = std::find_if(levels.begin(), levels.end(),
                                    [](const Level& level) { return level.end > level.start; });
  if (raised == levels.end()) return {};
  return fmt::format("{}: {} at the start, {} after teardown and trim", raised->name, raised->start,
                     raised->end);
}

/// Beside graphs of layers, whoever shares, and where it was captured before the iteration whose
/// pool it would share.
bool has_optimizer_pool(const LegRecord& record) {
  const auto is_optimizer = [](const workloads::GraphRecord& graph) {
    return graph.scope == workloads::optimizer_scope;
  };
  const auto is_layer = [](const workloads::GraphRecord& graph) { return graph.layer >= 0; };
  if (record.graphs.empty() ||
      std::all_of(record.graphs.begin(), record.graphs.end(), is_optimizer)) {
    return false;
  }
  return is_optimizer(record.graphs.front()) ||
         (std::any_of(record.graphs.begin(), record.graphs.end(), is_optimizer) &&
          std::any_of(record.graphs.begin(), record.graphs.end(), is_layer));
}

/// Pools where they are separate: one a graph, but the parts of an iteration share one, for they
/// replay in one order.
int pools_apart(const JudgeContext& context) {
  const CoveragePlan plan = plan_coverage(context.cell, context.rank);
  std::set<bool> iterations;
  int others = 0;
  for (const PlannedGraph& graph : plan.graphs) {
    if (captures_iterations(context.cell) && !graph.optimizer) {
      iterations.insert(graph.validation);
    } else {
      ++others;
    }
  }
  return static_cast<int>(iterations.size()) + others;
}

const LegRecord& leg_with_pools(JudgeContext& context, bool separate) {
  const LegRecord& own = context.legs.record(graph_leg());
  const LegRecord& other = context.legs.record(other_pools_leg());
  return workloads::plan_capture(context.cell).separate_pools == separate ? own : other;
}

}  // namespace

std::vector<LegRequest> baseline_legs(const matrix::Cell& /*cell*/) {
  return {graph_leg(), cycle_leg()};
}

CheckResult judge_baseline(JudgeContext& context) {
  for (const LegRequest& request : baseline_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    if (!record.memory_at_start.taken || !record.memory_at_end.taken) {
      return {
          .verdict = Verdict::fail_coverage,
          .detail = fmt::format("the memory of the {} leg was not looked at", leg_name(request))};
    }
    const std::string left = what_is_left(record.memory_at_start, record.memory_at_end);
    if (!left.empty()) {
      return {.verdict = Verdict::fail_leak,
              .detail = fmt::format("{} leg: {}", leg_name(request), left)};
    }
  }
  return {.detail = "nothing is left after teardown and trim"};
}

std::vector<LegRequest> pool_legs(const matrix::Cell& /*cell*/) {
  return {eager_leg(), graph_leg(), other_pools_leg()};
}

CheckResult judge_pools(JudgeContext& context) {
  const LegDifference& difference = context.legs.difference(eager_leg(), other_pools_leg());
  if (const ObservationOutcome* wrong = difference.first()) {
    // Where the cell's own graphs are wrong as well, the pools are not what makes them so.
    const bool only_here = context.legs.difference(eager_leg(), graph_leg()).first() == nullptr;
    return {.verdict = only_here ? Verdict::fail_overwrite : Verdict::fail_numeric_mismatch,
            .detail = fmt::format(
                "{} differs from eager where the graphs {}", location_text(wrong->where),
                &leg_with_pools(context, true) == &context.legs.record(other_pools_leg())
                    ? "have separate pools"
                    : "share a pool"),
            .divergence = divergence_of(*wrong)};
  }
  const LegRecord& shared = leg_with_pools(context, false);
  const LegRecord& separate = leg_with_pools(context, true);
  const LegFootprint together = footprint_of(shared);
  const LegFootprint apart = footprint_of(separate);
  if (shared.graphs.empty() || difference.outcomes.empty()) {
    return {.verdict = Verdict::fail_coverage, .detail = "no graph used a pool"};
  }
  const int expected_pools = has_optimizer_pool(shared) ? 2 : 1;
  if (together.graph_pools != expected_pools) {
    return {.verdict = Verdict::fail_leak,
            .detail =
                fmt::format("{} graphs that share a pool have {} pools of {} bytes",
                            shared.graphs.size(), together.graph_pools, together.graph_pool_bytes)};
  }
  if (pools_apart(context) > expected_pools &&
      together.graph_pool_bytes >= apart.graph_pool_bytes) {
    return {.verdict = Verdict::fail_leak,
            .detail = fmt::format("the shared pool of {} graphs has {} bytes, separate pools have "
                                  "{}",
                                  shared.graphs.size(), together.graph_pool_bytes,
                                  apart.graph_pool_bytes)};
  }
  return {.detail = fmt::format("{} bytes in one pool, {} in {}; {} tensors equal eager's",
                                together.graph_pool_bytes, apart.graph_pool_bytes,
                                apart.graph_pools, difference.outcomes.size())};
}

std::vector<LegRequest> peak_legs(const matrix::Cell& /*cell*/) {
  return {eager_leg(), graph_leg(), other_pools_leg()};
}

CheckResult judge_peak(JudgeContext& context) {
  const std::int64_t eager = footprint_of(context.legs.record(eager_leg())).peak_active_bytes;
  if (eager <= 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "the eager leg used no memory"};
  }
  std::string seen;
  for (const bool separate : {false, true}) {
    const double factor = separate ? separate_pools_factor : shared_pool_factor;
    const std::int64_t peak = footprint_of(leg_with_pools(context, separate)).peak_active_bytes;
    const double ratio = static_cast<double>(peak) / static_cast<double>(eager);
    const std::string text = fmt::format(
        "{} pool{}: {} bytes, {:.2f} times eager's {}, at most "
        "{:.1f}",
        separate ? "separate" : "shared", separate ? "s" : "", peak, ratio, eager, factor);
    if (ratio > factor) return {.verdict = Verdict::fail_leak, .detail = text};
    seen += (seen.empty() ? "" : "; ") + text;
  }
  return {.detail = seen};
}

}  // namespace cgconform::suites::checks
