#include "suites/memory_measurements.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace cgconform::suites {
namespace {

using workloads::LegKind;
using workloads::LegRecord;

constexpr std::string_view eager_pool = "default";

void measure_leg(const std::string& name, const LegRecord& record, RankReport& report) {
  const LegFootprint footprint = footprint_of(record);
  const auto note = [&](std::string_view what, std::int64_t bytes) {
    report.measurements[fmt::format("memory {} {} bytes", name, what)] = static_cast<double>(bytes);
  };
  note("peak active", footprint.peak_active_bytes);
  note("peak reserved", footprint.peak_reserved_bytes);
  note("active at end", record.memory_at_end.active_bytes);
  note("reserved at end", record.memory_at_end.reserved_bytes);
}

void measure_graphs(const LegRecord& eager, const LegRecord& graph, const std::string& name,
                    RankReport& report) {
  const LegFootprint without = footprint_of(eager);
  const LegFootprint with = footprint_of(graph);
  const auto note = [&](std::string_view what, double value) {
    report.measurements[fmt::format("memory {} {}", name, what)] = value;
  };
  note("overhead bytes", static_cast<double>(with.peak_active_bytes - without.peak_active_bytes));
  if (without.peak_active_bytes > 0) {
    note("overhead ratio", static_cast<double>(with.peak_active_bytes) /
                               static_cast<double>(without.peak_active_bytes));
  }
  note("private pools", static_cast<double>(with.graph_pools));
  note("private pool bytes", static_cast<double>(with.graph_pool_bytes));
  std::int64_t sum = 0;
  std::int64_t largest = 0;
  for (const workloads::GraphRecord& one : graph.graphs) {
    sum += one.pool_bytes;
    largest = std::max(largest, one.pool_bytes);
  }
  note("largest graph bytes", static_cast<double>(largest));
  if (!graph.graphs.empty()) {
    note("mean graph bytes", static_cast<double>(sum) / static_cast<double>(graph.graphs.size()));
  }
}

/// Instruments need memory of their own, repeats need what the first run needs, and other steps
/// are no measure of the cell's.
bool is_measured(const workloads::LegRequest& request) {
  return !request.instrumented && request.repetition == 0 && request.cycles == 0 &&
         request.steps == 0 && request.warmup_steps < 0 && !request.without_recompute &&
         !request.without_validation;
}

}  // namespace

LegFootprint footprint_of(const LegRecord& record) {
  LegFootprint footprint;
  for (const auto& [name, pool] : record.pools) {
    footprint.peak_active_bytes += pool.peak_active_bytes;
    footprint.peak_reserved_bytes += pool.peak_reserved_bytes;
    if (name == eager_pool) continue;
    footprint.graph_pool_bytes += pool.peak_reserved_bytes;
    ++footprint.graph_pools;
  }
  return footprint;
}

void measure_memory(const LegSet& legs, RankReport& report) {
  const auto eager = legs.all().find(eager_leg());
  for (const auto& [request, state] : legs.all()) {
    if (!state.ran || !is_measured(request)) continue;
    const std::string name = leg_name(request);
    measure_leg(name, state.record(), report);
    if (request.kind == LegKind::graph && eager != legs.all().end()) {
      measure_graphs(eager->second.record(), state.record(), name, report);
    }
  }
}

}  // namespace cgconform::suites
