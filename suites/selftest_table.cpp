#include "suites/selftest_table.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/checks/capture_recovery.hpp"
#include "suites/checks/communicator_ends.hpp"
#include "suites/checks/memory_growth.hpp"
#include "suites/checks/shared_pool_control.hpp"

namespace cgconform::suites {
namespace {

using matrix::Cell;
using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using workloads::FaultRow;
using workloads::Sabotage;

Cell small_model() {
  Cell cell;
  cell.config.cuda_graph_impl = CudaGraphImpl::local;
  cell.config.cuda_graph_warmup_steps = 1;
  cell.config.use_te_rng_tracker = true;
  cell.config.te_rng_tracker = true;
  cell.config.check_for_nan_in_loss = false;
  cell.config.check_for_nan_in_grad = false;
  cell.config.check_for_nan_in_loss_and_grad = false;
  cell.config.num_layers = 2;
  cell.config.hidden_size = 16;
  cell.config.num_attention_heads = 2;
  cell.config.seq_length = 8;
  cell.config.num_microbatches = 3;
  cell.shape.steps = 4;
  return cell;
}

Cell local_layers() {
  return small_model();
}

Cell local_pipeline() {
  Cell cell = small_model();
  cell.config.num_layers = 4;
  cell.config.pipeline_model_parallel_size = 2;
  cell.config.num_microbatches = 4;
  return cell;
}

Cell full_iteration() {
  Cell cell = small_model();
  cell.config.cuda_graph_scope = {CudaGraphModule::full_iteration};
  return cell;
}

Cell full_iteration_pipeline() {
  Cell cell = local_pipeline();
  cell.config.cuda_graph_scope = {CudaGraphModule::full_iteration};
  return cell;
}

Cell callables() {
  Cell cell = small_model();
  cell.config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  return cell;
}

Cell callables_pipeline() {
  Cell cell = local_pipeline();
  cell.config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  return cell;
}

/// What must come out for each fault class: the detector that names it, on any cell.
struct FaultExpectation {
  std::string_view id_prefix;
  Verdict verdict;
  std::string_view check_id;
  /// Where faults show that apply to no cell.
  CheckResult (*scenario)(ScenarioContext& context) = nullptr;
};

/// The first row whose prefix fits decides.
constexpr std::array fault_expectations{
    FaultExpectation{"F01", Verdict::fail_stale_input, "MEM-09"},
    FaultExpectation{"F02b", Verdict::fail_illegal_access, ""},
    FaultExpectation{"F02", Verdict::fail_stale_address, "MEM-07"},
    FaultExpectation{"F04", Verdict::fail_overwrite, "MEM-09"},
    FaultExpectation{"F07", Verdict::fail_rng_state, "NUM-08"},
    FaultExpectation{"F14", Verdict::fail_grad_accum, "NUM-02"},
    FaultExpectation{"F17", Verdict::fail_missing_edge, "CCY-02"},
    FaultExpectation{"F23", Verdict::fail_recovery, "LIF-03", checks::judge_capture_recovery},
    FaultExpectation{"F30f", Verdict::fail_leak, "MEM-03"},
    FaultExpectation{"F30", Verdict::fail_leak, "MEM-01"},
    FaultExpectation{"F32g", Verdict::fail_teardown, "LIF-08", checks::judge_teardown_of_ranks},
    FaultExpectation{"F32a", Verdict::fail_teardown, "LIF-08", checks::judge_communicator_teardown},
    FaultExpectation{"F32b", Verdict::fail_teardown, "LIF-08", checks::judge_communicator_teardown},
    FaultExpectation{"F32h", Verdict::fail_teardown, "LIF-08", checks::judge_communicator_teardown},
    FaultExpectation{"F32", Verdict::fail_teardown, "LIF-07"},
};

const FaultExpectation& expectation_of(const FaultRow& fault) {
  const auto* found = std::find_if(
      fault_expectations.begin(), fault_expectations.end(),
      [&](const FaultExpectation& row) { return fault.id.starts_with(row.id_prefix); });
  if (found == fault_expectations.end()) {
    throw InternalError(fmt::format("fault {} has no expected verdict", fault.id));
  }
  return *found;
}

struct SabotageRow {
  Sabotage sabotage;
  std::string_view name;
  std::optional<Verdict> expected;
  std::string_view check_id;
};

constexpr std::array sabotage_rows{
    SabotageRow{Sabotage::replay_does_nothing, "replay-does-nothing", std::nullopt, "TLG-03"},
    SabotageRow{Sabotage::replay_runs_eager_code, "replay-runs-eager-code", std::nullopt, "TLG-03"},
    SabotageRow{Sabotage::comparator_says_equal, "comparator-says-equal", Verdict::fail_suite,
                "NUM-33"},
    SabotageRow{Sabotage::capture_executes_at_once, "capture-executes-at-once", std::nullopt,
                "LIF-17"},
};

struct RunnerRow {
  std::string_view mock;
  int ranks;
  Verdict expected;
  std::string_view statement;
};

constexpr std::array runner_rows{
    RunnerRow{"pass", 2, Verdict::pass, "a gang of healthy workers"},
    RunnerRow{"segfault", 2, Verdict::crash, "a worker dies of SIGSEGV"},
    RunnerRow{"wild_access", 1, Verdict::fail_illegal_access,
              "a worker faults inside the device's memory"},
    RunnerRow{"abort_call", 2, Verdict::crash, "a worker calls abort"},
    RunnerRow{"killed", 2, Verdict::crash, "a worker is killed from outside"},
    RunnerRow{"exit_zero", 2, Verdict::crash, "a worker exits early with code 0 and no report"},
    RunnerRow{"exit_nonzero", 1, Verdict::crash, "a worker exits early with an error code"},
    RunnerRow{"hang", 2, Verdict::hang, "a worker does nothing any more"},
    RunnerRow{"hang_stubbornly", 1, Verdict::hang, "a worker hangs and ignores TERM"},
    RunnerRow{"failing_check", 2, Verdict::fail_numeric_mismatch, "one rank reports a failure"},
    RunnerRow{"nothing_tested", 1, Verdict::fail_coverage, "a worker compared nothing"},
    RunnerRow{"other_plan", 2, Verdict::fail_suite, "the ranks ran different cells"},
};

void add_controls(std::vector<SelftestRow>& rows) {
  for (const SelftestCell& base : selftest_cells()) {
    rows.push_back({.id = fmt::format("off/{}", base.name),
                    .kind = SelftestKind::control,
                    .statement = fmt::format("every fault off on the cell {}", base.name),
                    .cell = base.cell,
                    .expected = Verdict::pass});
  }
  rows.push_back({.id = "C1",
                  .kind = SelftestKind::control,
                  .statement = "independent graphs in one pool, outputs consumed before the next "
                               "launch, replayed in shuffled order",
                  .scenario = checks::judge_shared_pool_control,
                  .expected = Verdict::pass});
  rows.push_back({.id = "C9",
                  .kind = SelftestKind::control,
                  .statement = "the first cycle raises memory once, and it stays flat",
                  .scenario = checks::judge_raised_once,
                  .expected = Verdict::pass});
  rows.push_back({.id = "off/recovery",
                  .kind = SelftestKind::control,
                  .statement = "captures that break and are unwound",
                  .scenario = checks::judge_capture_recovery,
                  .expected = Verdict::pass});
  rows.push_back({.id = "off/teardown",
                  .kind = SelftestKind::control,
                  .statement = "graphs are destroyed before their communicator",
                  .scenario = checks::judge_communicator_teardown,
                  .expected = Verdict::pass});
  rows.push_back({.id = "off/teardown-of-ranks",
                  .kind = SelftestKind::control,
                  .statement = "two ranks destroy their graphs when both have replayed",
                  .scenario = checks::judge_teardown_of_ranks,
                  .expected = Verdict::pass});
  Cell validated = full_iteration();
  validated.shape.eval_interval = 2;
  rows.push_back({.id = "C10",
                  .kind = SelftestKind::control,
                  .statement = "validation every second step with its own graph and buffers",
                  .cell = validated,
                  .expected = Verdict::pass});
  Cell validated_layers = local_layers();
  validated_layers.shape.eval_interval = 2;
  rows.push_back({.id = "C10/local",
                  .kind = SelftestKind::control,
                  .statement = "eager validation between replays of layer graphs",
                  .cell = validated_layers,
                  .expected = Verdict::pass});
  Cell in_place = local_layers();
  in_place.shape.optimizer = matrix::Optimizer::sgd;
  rows.push_back({.id = "C11",
                  .kind = SelftestKind::control,
                  .statement = "weights updated in place between replays, addresses unchanged",
                  .cell = in_place,
                  .expected = Verdict::pass});
}

void add_faults(std::vector<SelftestRow>& rows) {
  for (const FaultRow& fault : workloads::fault_table()) {
    const FaultExpectation& expectation = expectation_of(fault);
    for (const SelftestCell& base : selftest_cells()) {
      if (!fault.applies(base.cell)) continue;
      rows.push_back({.id = fmt::format("{}/{}", fault.id, base.name),
                      .kind = SelftestKind::fault,
                      .statement = std::string(fault.injection),
                      .cell = base.cell,
                      .faults = {fault.fault},
                      .expected = expectation.verdict,
                      .check_id = std::string(expectation.check_id)});
    }
    if (expectation.scenario == nullptr) continue;
    rows.push_back({.id = fmt::format("{}/scenario", fault.id),
                    .kind = SelftestKind::fault,
                    .statement = std::string(fault.injection),
                    .faults = {fault.fault},
                    .scenario = expectation.scenario,
                    .expected = expectation.verdict,
                    .check_id = std::string(expectation.check_id)});
  }
}

void add_sabotages(std::vector<SelftestRow>& rows) {
  for (const SabotageRow& sabotage : sabotage_rows) {
    for (const SelftestCell& base : selftest_cells()) {
      rows.push_back({.id = fmt::format("{}/{}", sabotage.name, base.name),
                      .kind = SelftestKind::sabotage,
                      .statement = std::string(sabotage.name),
                      .cell = base.cell,
                      .sabotage = sabotage.sabotage,
                      .expected = sabotage.expected,
                      .check_id = std::string(sabotage.check_id)});
    }
  }
}

void add_runner(std::vector<SelftestRow>& rows) {
  for (const RunnerRow& runner : runner_rows) {
    rows.push_back({.id = fmt::format("runner/{}", runner.mock),
                    .kind = SelftestKind::runner,
                    .statement = std::string(runner.statement),
                    .mock = std::string(runner.mock),
                    .mock_ranks = runner.ranks,
                    .expected = runner.expected});
  }
}

std::vector<SelftestRow> collect_rows() {
  std::vector<SelftestRow> rows;
  add_controls(rows);
  add_faults(rows);
  add_sabotages(rows);
  add_runner(rows);
  return rows;
}

bool fired(const CellResult& result, std::string_view check_id) {
  if (result.check_id == check_id) return true;
  return std::any_of(
      result.secondary.begin(), result.secondary.end(),
      [&](const std::string& text) { return text.starts_with(fmt::format("{} ", check_id)); });
}

}  // namespace

std::string_view selftest_kind_name(SelftestKind kind) {
  switch (kind) {
    case SelftestKind::fault:
      return "fault";
    case SelftestKind::control:
      return "control";
    case SelftestKind::sabotage:
      return "sabotage";
    case SelftestKind::runner:
      break;
  }
  return "runner";
}

std::span<const SelftestCell> selftest_cells() {
  static const std::vector<SelftestCell> cells{
      {"local", local_layers()},
      {"local-pipeline", local_pipeline()},
      {"full-iteration", full_iteration()},
      {"full-iteration-pipeline", full_iteration_pipeline()},
      {"transformer-engine", callables()},
      {"transformer-engine-pipeline", callables_pipeline()},
  };
  return cells;
}

std::span<const SelftestRow> selftest_table() {
  static const std::vector<SelftestRow> rows = collect_rows();
  return rows;
}

bool selftest_holds(const SelftestRow& row, const CellResult& result, std::string& why) {
  why.clear();
  if (row.expected ? result.verdict != *row.expected : !is_bad(result.verdict)) {
    why = fmt::format(
        "expected {}, got {}{}{}", row.expected ? verdict_name(*row.expected) : "a failing verdict",
        verdict_name(result.verdict), result.reason.empty() ? "" : ": ", result.reason);
  } else if (!row.check_id.empty() && !fired(result, row.check_id)) {
    why =
        fmt::format("{} came out, but {} did not fire", verdict_name(result.verdict), row.check_id);
  }
  return why.empty();
}

}  // namespace cgconform::suites
