#include "suites/checks/scan_state.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "suites/cell_plan.hpp"
#include "suites/checks/difference_text.hpp"
#include "suites/layer_parts.hpp"
#include "suites/leg_set.hpp"
#include "suites/pipeline_passes.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Observation;

constexpr std::string_view state_prefix = "scan_state:";
constexpr std::string_view start_name = "scan_state:start";
constexpr std::string_view end_name = "scan_state:end";

bool stage_scans(const JudgeContext& context) {
  for (const LayerSpan& chunk : stage_chunks(context.cell, context.rank)) {
    for (std::int32_t layer = chunk.first; layer < chunk.first + chunk.count; ++layer) {
      const std::vector<std::string_view> parts = parts_of_layer(context.cell, layer);
      if (std::find(parts.begin(), parts.end(), "mamba") != parts.end()) return true;
    }
  }
  return false;
}

/// Indices of observed states.
struct ScanPairs {
  std::vector<std::pair<std::size_t, std::size_t>> starts;   ///< the first one, and every later
  std::vector<std::pair<std::size_t, std::size_t>> carried;  ///< start and end of one scan
};

ScanPairs pairs_of(const std::vector<Observation>& observations) {
  using Place = std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>;
  std::map<Place, std::size_t> start_of;
  // Of a partial micro-batch there are fewer states.
  std::map<std::pair<std::int32_t, std::size_t>, std::size_t> first_of_layer;
  ScanPairs pairs;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const auto& where = observations[i].where;
    const Place place{where.step, where.microbatch, where.layer, where.validation};
    if (where.tensor == start_name) {
      start_of.insert_or_assign(place, i);
      const auto bytes = static_cast<std::size_t>(observations[i].snapshot.view().bytes());
      const auto [first, inserted] = first_of_layer.try_emplace({where.layer, bytes}, i);
      if (!inserted) pairs.starts.emplace_back(first->second, i);
    } else if (where.tensor == end_name) {
      const auto start = start_of.find(place);
      if (start != start_of.end()) pairs.carried.emplace_back(start->second, i);
    }
  }
  return pairs;
}

}  // namespace

bool graph_cells_with_scans(const matrix::Cell& cell) {
  return is_graph_cell(cell) && model_has_part(cell, "mamba");
}

CheckResult judge_scan_states(JudgeContext& context) {
  const auto expected = instrumented_eager_leg();
  const auto actual = instrumented_graph_leg();
  std::uint64_t compared = 0;
  for (const ObservationOutcome& outcome : context.legs.difference(expected, actual).outcomes) {
    if (!outcome.where.tensor.starts_with(state_prefix)) continue;
    ++compared;
    if (!outcome.differs()) continue;
    const bool starts_elsewhere = outcome.where.tensor == start_name;
    return {
        .verdict = starts_elsewhere ? Verdict::fail_stale_input : Verdict::fail_numeric_mismatch,
        .detail = describe_difference(outcome, expected, actual),
        .divergence = divergence_of(outcome)};
  }
  if (!stage_scans(context) && compared == 0) {
    return {.detail = "this stage has no Mamba layer"};
  }
  const auto& observations = context.legs.record(actual).observations;
  const ScanPairs pairs = pairs_of(observations);
  if (compared == 0 || pairs.starts.empty() || pairs.carried.empty()) {
    return {.verdict = Verdict::fail_coverage, .detail = "no state of a scan was observed"};
  }
  const auto starts = context.legs.compare_within(actual, pairs.starts);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (starts[i].equal()) continue;
    return {.verdict = Verdict::fail_stale_input,
            .detail = fmt::format("{}: the scan goes on from an earlier state",
                                  location_text(observations[pairs.starts[i].second].where))};
  }
  const auto carried = context.legs.compare_within(actual, pairs.carried);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    if (!carried[i].equal()) continue;
    return {.verdict = Verdict::fail_coverage,
            .detail = fmt::format("{}: the scan carried no state",
                                  location_text(observations[pairs.carried[i].second].where))};
  }
  return {.detail = fmt::format("{} states of scans equal those of eager, {} starts are alike",
                                compared, starts.size() + 1)};
}

}  // namespace cgconform::suites::checks
