#include "suites/cell_plan.hpp"

#include <set>

#include <fmt/format.h>
#include <xxhash.h>

namespace cgconform::suites {

bool is_graph_cell(const matrix::Cell& cell) {
  return cell.config.cuda_graph_impl != matrix::CudaGraphImpl::none;
}

CellPlan plan_cell(const matrix::Cell& cell, std::span<const CheckDefinition> table) {
  CellPlan plan;
  std::set<workloads::LegRequest> legs;
  for (const CheckDefinition& check : table) {
    if (check.subject != CheckSubject::cell || !check.applies(cell)) continue;
    plan.checks.push_back(&check);
    for (const workloads::LegRequest& leg : check.legs(cell)) legs.insert(leg);
  }
  plan.legs.assign(legs.begin(), legs.end());
  return plan;
}

std::string plan_digest(const CellPlan& plan, std::string_view cell_id, std::uint64_t seed) {
  std::string text = fmt::format("{}\nseed {}\n", cell_id, seed);
  for (const CheckDefinition* check : plan.checks) text += fmt::format("check {}\n", check->id);
  for (const workloads::LegRequest& leg : plan.legs) {
    text += fmt::format("leg {} {} {} {} {} {} {} {} {} {} {} {}\n", static_cast<int>(leg.kind),
                        leg.repetition, leg.instrumented, leg.replay_seed, leg.timed,
                        leg.without_validation, leg.steps, leg.warmup_steps, leg.without_recompute,
                        leg.cycles, leg.other_pools, leg.restart_after);
  }
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace cgconform::suites
