#include "suites/checks/teardown_audit.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "suites/checks/leg_choice.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::GraphRecord;
using workloads::LegRecord;
using workloads::TeardownRecord;

/// What was wrong with the teardown of a leg; empty where nothing was.
std::string find_disorder(const LegRecord& record) {
  const TeardownRecord& teardown = record.teardown;
  if (!teardown.lost_operands.empty()) {
    return fmt::format("memory was gone before its graph: {}", teardown.lost_operands.front());
  }
  const auto kept = std::find_if(record.graphs.begin(), record.graphs.end(),
                                 [](const GraphRecord& graph) { return graph.destroy_order < 0; });
  if (kept != record.graphs.end()) {
    return fmt::format("graph '{}' was not destroyed", kept->name);
  }
  if (teardown.captured_nodes_after > 0) {
    return fmt::format("{} nodes were captured after the cleanup", teardown.captured_nodes_after);
  }
  const std::int64_t executables =
      record.memory_at_end.device.executables - record.memory_at_start.device.executables;
  if (executables > 0) {
    return fmt::format("{} executables live on, held by a reference that is none of the leg's",
                       executables);
  }
  if (teardown.communicator_references > 0) {
    return fmt::format("{} graphs still hold the communicator", teardown.communicator_references);
  }
  return {};
}

}  // namespace

CheckResult judge_teardown(JudgeContext& context) {
  std::uint64_t operands = 0;
  for (const auto& request : graph_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    if (!record.teardown.done) {
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format("the {} leg was not torn down", leg_name(request))};
    }
    const std::string disorder = find_disorder(record);
    if (!disorder.empty()) {
      return {.verdict = Verdict::fail_teardown,
              .detail = fmt::format("{} leg: {}", leg_name(request), disorder)};
    }
    operands += record.teardown.operands;
  }
  if (operands == 0) {
    return {.verdict = Verdict::fail_coverage,
            .detail = "no graph used memory that has to outlive it"};
  }
  return {.detail = fmt::format("{} operands outlived their graphs", operands)};
}

}  // namespace cgconform::suites::checks
