#include "suites/selftest_early_return.hpp"

#include <string>

#include <fmt/format.h>

#include "suites/checks/early_return.hpp"

namespace cgconform::suites {

void add_early_returns(std::vector<SelftestRow>& rows) {
  const workloads::FaultRow& fault = workloads::fault_row(workloads::Fault::f32e_hidden_reference);
  for (const int ranks : {1, 2}) {
    const std::string name = ranks == 1 ? "early-return" : "early-return-of-ranks";
    rows.push_back({.id = fmt::format("off/{}", name),
                    .kind = SelftestKind::control,
                    .statement = "trainings that return early, in a step, a capture or a replay",
                    .scenario = checks::judge_early_return,
                    .scenario_ranks = ranks,
                    .expected = Verdict::pass});
    rows.push_back({.id = fmt::format("{}/{}", fault.id, name),
                    .kind = SelftestKind::fault,
                    .statement = std::string(fault.injection),
                    .faults = {fault.fault},
                    .scenario = checks::judge_early_return,
                    .scenario_ranks = ranks,
                    .expected = Verdict::fail_teardown,
                    .check_id = "LIF-10"});
  }
}

}  // namespace cgconform::suites
