#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"
#include "suites/check_catalogue.hpp"
#include "suites/child_program.hpp"
#include "suites/result_record.hpp"
#include "workloads/training/leg_request.hpp"

namespace cgconform::workloads {
class Device;
class FaultSwitches;
}  // namespace cgconform::workloads

namespace cgconform::suites {

class LegSet;

enum class Isolation : std::uint8_t { kept_worker, fresh_worker, child_gang };

/// What a check is judged on.
enum class CheckSubject : std::uint8_t {
  cell,             ///< legs of a cell, on every rank of its gang
  device_scenario,  ///< a small program on the device interface, once a run, on one rank
  run_scenario,     ///< tables and processes, before any device is used, once a run
  runner,           ///< the machinery that runs cells and merges reports, while it does so
};

/// What a judge sees: the cell, the legs its check asked for, and its rank in the gang.
struct JudgeContext {
  const matrix::Cell& cell;
  LegSet& legs;
  int rank = 0;
};

/// What a scenario may use.
struct ScenarioContext {
  workloads::Device* device = nullptr;  ///< null for run scenarios
  std::uint64_t seed = 0;               ///< of everything the scenario draws
  /// Passed on to programs of the workload; null where all are off. Checks cannot look inside.
  const workloads::FaultSwitches* faults = nullptr;
  /// Starts a child program on processes of its own; empty where there are none to be had.
  ChildStarter start_children;
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
  bool (*applies)(const matrix::Cell& cell) = nullptr;
  std::vector<workloads::LegRequest> (*legs)(const matrix::Cell& cell) = nullptr;
  CheckResult (*judge)(JudgeContext& context) = nullptr;
  /// Of a check on cells: what their legs cannot show, run once a run on the device.
  CheckResult (*scenario)(ScenarioContext& context) = nullptr;
};

/// Every check that is built, in the order of the catalogue.
std::span<const CheckDefinition> check_table();
/// The built check of an id; null where there is none.
const CheckDefinition* find_check(std::string_view id);

}  // namespace cgconform::suites
