#include <array>

#include <fmt/format.h>

#include "suites/checks/families.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/checks/memory_footprint.hpp"
#include "suites/checks/memory_growth.hpp"
#include "suites/checks/memory_guards.hpp"
#include "suites/checks/pool_scenarios.hpp"
#include "suites/checks/segment_scenarios.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::AddressFinding;
using workloads::LegRecord;
using workloads::SlotKind;
using workloads::SlotRecord;

std::string describe(const AddressFinding& finding, const LegRecord& record) {
  const auto index = static_cast<std::size_t>(finding.graph);
  const bool named = finding.graph >= 0 && index < record.graphs.size();
  std::string text = finding.step >= 0 ? fmt::format("step {}: ", finding.step) : "";
  text += fmt::format("graph '{}' node {} ({}) operand '{}': {}",
                      named ? record.graphs[index].name : "unknown", finding.node, finding.op,
                      finding.operand, finding.reason);
  if (finding.captured_generation != finding.current_generation) {
    text += fmt::format(", generation {} at capture and {} at launch", finding.captured_generation,
                        finding.current_generation);
  }
  if (!finding.label.empty()) text += fmt::format("; the block is '{}'", finding.label);
  return text;
}

std::size_t count_operands(const LegRecord& record) {
  std::size_t operands = 0;
  for (const auto& graph : record.graphs) {
    for (const auto& node : graph.nodes) operands += node.operands.size();
  }
  return operands;
}

/// MEM-07: the ledger's findings before each launch.
CheckResult judge_addresses(JudgeContext& context) {
  std::size_t operands = 0;
  for (const auto& request : graph_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    if (!record.address_findings.empty()) {
      return {.verdict = Verdict::fail_stale_address,
              .detail = describe(record.address_findings.front(), record)};
    }
    operands += count_operands(record);
  }
  if (operands == 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "no graph node has an operand to audit"};
  }
  return {.detail = fmt::format("{} operands of graph nodes lie in live blocks", operands)};
}

std::string_view slot_name(SlotKind kind) {
  switch (kind) {
    case SlotKind::static_input:
      return "static input";
    case SlotKind::output:
      return "output";
    case SlotKind::saved_activation:
      return "saved activation";
    case SlotKind::weight_grad:
      return "weight gradient";
  }
  return "slot";
}

CheckResult describe_changed_slot(const SlotRecord& slot) {
  const bool input = slot.kind == SlotKind::static_input;
  return {
      .verdict = input ? Verdict::fail_stale_input : Verdict::fail_overwrite,
      .detail = fmt::format("{} {}: hash {:016x} when {}, {:016x} when used", slot_name(slot.kind),
                            location_text(slot.where), slot.hash_at_production,
                            input ? "given" : "produced", slot.hash_at_use)};
}

/// MEM-09: the hash of each slot where its value was produced and where it was used. A stale input
/// explains values that were overwritten with its results, so it is named first.
CheckResult judge_slots(JudgeContext& context) {
  const LegRecord& record = context.legs.record(instrumented_graph_leg());
  const SlotRecord* overwritten = nullptr;
  for (const SlotRecord& slot : record.slots) {
    if (slot.hash_at_production == slot.hash_at_use) continue;
    if (slot.kind == SlotKind::static_input) return describe_changed_slot(slot);
    if (overwritten == nullptr) overwritten = &slot;
  }
  if (overwritten != nullptr) return describe_changed_slot(*overwritten);
  if (record.slots.empty()) {
    return {.verdict = Verdict::fail_coverage, .detail = "no slot of a graph was hashed"};
  }
  return {.detail = fmt::format("{} slots held their values until used", record.slots.size())};
}

}  // namespace

std::span<const CheckDefinition> memory_checks() {
  static constexpr std::array table{
      CheckDefinition{.id = "MEM-01",
                      .failure = Verdict::fail_leak,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = growth_legs,
                      .judge = judge_cycles,
                      .scenario = judge_hundred_cycles},
      CheckDefinition{.id = "MEM-02",
                      .failure = Verdict::fail_leak,
                      .applies = graph_cells,
                      .legs = baseline_legs,
                      .judge = judge_baseline},
      CheckDefinition{.id = "MEM-03",
                      .failure = Verdict::fail_leak,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = pool_legs,
                      .judge = judge_pools},
      CheckDefinition{.id = "MEM-04",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_schedule_order,
                      .scenario = judge_replay_order},
      CheckDefinition{.id = "MEM-05",
                      .failure = Verdict::fail_leak,
                      .applies = graph_cells,
                      .legs = peak_legs,
                      .judge = judge_peak},
      CheckDefinition{.id = "MEM-07",
                      .failure = Verdict::fail_stale_address,
                      .judges_partial_legs = true,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = graph_legs,
                      .judge = judge_addresses},
      CheckDefinition{.id = "MEM-08",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_leak,
                      .scenario = judge_held_outputs},
      CheckDefinition{.id = "MEM-09",
                      .failure = Verdict::fail_overwrite,
                      .applies = graph_cells,
                      .legs = instrumented_pair,
                      .judge = judge_slots},
      CheckDefinition{.id = "MEM-11",
                      .subject = CheckSubject::device_scenario,
                      .failure = Verdict::fail_numeric_mismatch,
                      .scenario = judge_segment_kinds},
      CheckDefinition{.id = "MEM-17",
                      .failure = Verdict::fail_overwrite,
                      .judges_graphs = GraphsOf::anything,
                      .applies = graph_cells,
                      .legs = guard_legs,
                      .judge = judge_guards,
                      .scenario = judge_guard_control},
      CheckDefinition{
          .id = "MEM-19", .subject = CheckSubject::runner, .failure = Verdict::fail_leak},
  };
  return table;
}

}  // namespace cgconform::suites::checks
