#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"
#include "suites/check_catalogue.hpp"
#include "suites/child_program.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/result_record.hpp"
#include "workloads/training/leg_request.hpp"

namespace cgconform::workloads {
class Communicator;
class Device;
class FaultSwitches;
struct LegRecord;
}  // namespace cgconform::workloads

namespace cgconform::suites {

class LegSet;

enum class Isolation : std::uint8_t { kept_worker, fresh_worker, child_gang };

/// What a check is judged on.
enum class CheckSubject : std::uint8_t {
  cell,             ///< legs of a cell, on every rank of its gang
  device_scenario,  ///< a small program on the device interface, once a run, on one rank
  gang_scenario,    ///< a small program on the device interface, once a run, on a gang of ranks
  run_scenario,     ///< tables and processes, before any device is used, once a run
  runner,           ///< the machinery that runs cells and merges reports, while it does so
};

/// What a judge sees: the cell, the legs its check asked for, and its rank in the gang.
struct JudgeContext {
  const matrix::Cell& cell;
  LegSet& legs;
  int rank = 0;
};

/// How the self-test makes a rule wrong.
enum class RuleTampering : std::uint8_t {
  none,
  dropped,    ///< it never fires
  weakened,   ///< it does not see captures by transformer_engine
  overeager,  ///< it fires on every configuration
};

/// What a scenario may use.
struct ScenarioContext {
  workloads::Device* device = nullptr;  ///< null for run scenarios
  /// The ranks that run it together; null for scenarios of one rank.
  workloads::Communicator* gang = nullptr;
  /// Makes a further communicator of the gang's ranks; all call it together, with one name.
  std::function<std::unique_ptr<workloads::Communicator>(const std::string& name)> communicator;
  std::uint64_t seed = 0;  ///< of everything the scenario draws
  RuleTampering tampering = RuleTampering::none;
  std::string_view tampered_rule{};  ///< id
  /// Passed on to programs of the workload; null where all are off. Checks cannot look inside.
  const workloads::FaultSwitches* faults = nullptr;
  /// Starts a child program on processes of its own; empty where there are none to be had.
  ChildStarter start_children;
  /// Runs a cell of one rank eagerly on a device; empty for run scenarios.
  std::function<workloads::LegRecord(workloads::Device&, const matrix::Cell&)> run_eager_leg;
};

/// One conformance check, declared as data.
struct CheckDefinition {
  std::string_view id;
  CheckFamily family = CheckFamily::sui;  ///< from the catalogue
  std::string_view statement;             ///< from the catalogue
  CheckSubject subject = CheckSubject::cell;
  /// The verdict where the judge has no more specific one.
  Verdict failure = Verdict::fail_suite;
  Isolation isolation = Isolation::kept_worker;
  bool exclusive_gang = false;
  /// True where the judge can say something about a leg that ended early.
  bool judges_partial_legs = false;
  /// The graphs that the judge speaks of: it has nothing to say on a rank that is to have none.
  std::optional<GraphsOf> judges_graphs{};
  bool (*applies)(const matrix::Cell& cell) = nullptr;
  std::vector<workloads::LegRequest> (*legs)(const matrix::Cell& cell) = nullptr;
  CheckResult (*judge)(JudgeContext& context) = nullptr;
  /// Of a check on cells: what their legs cannot show, run once a run on the device. Of a check of
  /// the runner: what the machinery does not meet by itself, run so and on a gang.
  CheckResult (*scenario)(ScenarioContext& context) = nullptr;
};

/// Every check that is built, in the order of the catalogue.
std::span<const CheckDefinition> check_table();
/// The built check of an id; null where there is none.
const CheckDefinition* find_check(std::string_view id);

}  // namespace cgconform::suites
