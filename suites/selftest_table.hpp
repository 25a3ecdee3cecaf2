#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"
#include "suites/check.hpp"
#include "suites/result_record.hpp"
#include "workloads/faults/fault_table.hpp"

namespace cgconform::suites {

enum class SelftestKind : std::uint8_t {
  fault,     ///< one fault switch on: the exact verdict must come out
  control,   ///< everything off, on a pattern that looks like a fault: must pass
  sabotage,  ///< the suite's own promise made false: must turn red
  runner,    ///< a worker that crashes, hangs or lies, on a mock cell
};
std::string_view selftest_kind_name(SelftestKind kind);

/// One row of `cgconform selftest`: what to run and what must come out.
struct SelftestRow {
  std::string id;  ///< unique, such as `F02a/local` or `C10`
  SelftestKind kind = SelftestKind::fault;
  std::string statement;                 ///< what is wrong, or looks wrong
  std::optional<matrix::Cell> cell;      ///< absent for mocks and scenarios
  std::vector<workloads::Fault> faults;  ///< switched on for the workload
  workloads::Sabotage sabotage = workloads::Sabotage::none;
  CheckResult (*scenario)(ScenarioContext& context) = nullptr;  ///< of rows without a cell
  int scenario_ranks = 1;
  RuleTampering tampering = RuleTampering::none;  ///< of the scenario
  std::string_view tampered_rule{};
  std::string mock;  ///< behaviour of a mock cell
  int mock_ranks = 1;
  std::string mishap;   ///< mock behaviour that strikes the last rank of `cell` in a replay
  int fault_rank = -1;  ///< of the gang, the only one with the faults; -1 for all
  std::string_view guard_pages{};  ///< where blocks of `cell` lie in their mappings; empty: packed
  bool kept = false;  ///< run in workers that have run other cells, and again where it fails
  std::optional<Verdict> expected;  ///< exactly this; absent: any failing verdict
  std::string check_id;             ///< that must fire with it; empty where none in particular
  int failing_rank = -1;            ///< of the gang, that must be named; -1 where any may be
};

/// Every row, in the order they are run: controls first, so that a checker that is too eager shows
/// before anything is concluded from faults.
std::span<const SelftestRow> selftest_table();

/// The rows about the runner: workers that crash, hang or lie, and mishaps in true cells.
void add_runner_rows(std::vector<SelftestRow>& rows);

/// True where the merged result of a row's cell is what the row says. `why` then stays empty; else
/// it says what came out in its place.
bool selftest_holds(const SelftestRow& row, const CellResult& result, std::string& why);

/// The cells that self-test rows are run on, by name: small dense models, one for each way of
/// capturing and of running in parallel.
struct SelftestCell {
  std::string_view name;
  matrix::Cell cell;
  /// Ids of the faults and names of the sabotages run on it start with one of these, between
  /// blanks; empty: all that apply.
  std::string_view only;
  bool takes(std::string_view switched) const;
};
std::span<const SelftestCell> selftest_cells();

}  // namespace cgconform::suites
