#include "suites/selftest_table.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/checks/capture_recovery.hpp"
#include "suites/checks/communicator_ends.hpp"
#include "suites/checks/communicator_scenarios.hpp"
#include "suites/checks/fp8_checks.hpp"
#include "suites/checks/memory_growth.hpp"
#include "suites/checks/order_scenarios.hpp"
#include "suites/checks/random_scenarios.hpp"
#include "suites/checks/shared_pool_control.hpp"
#include "suites/selftest_early_return.hpp"
#include "suites/selftest_tampering.hpp"
#include "suites/selftest_variants.hpp"

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
  Cell cell = small_model();
  cell.shape.eval_interval = 2;
  return cell;
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
  cell.shape.eval_interval = 1;
  return cell;
}

Cell recomputed_iteration() {
  Cell cell = full_iteration();
  cell.config.recompute_granularity = matrix::RecomputeGranularity::full;
  cell.config.recompute_method = matrix::RecomputeMethod::uniform;
  cell.config.recompute_num_layers = 1;
  return cell;
}

Cell with_optimizer_graph(Cell cell) {
  cell.config.optimizer_cuda_graph = true;
  return cell;
}

/// A bound that gradients of the first steps exceed.
Cell with_clipping(Cell cell) {
  cell.shape.clip_grad = 0.5F;
  return cell;
}

Cell formed(matrix::CaptureForm form) {
  Cell cell = full_iteration();
  cell.shape.eval_interval = 2;
  cell.shape.capture_form = form;
  return cell;
}

Cell full_iteration_pipeline() {
  Cell cell = local_pipeline();
  cell.config.cuda_graph_scope = {CudaGraphModule::full_iteration};
  return cell;
}

/// Experts in both layers, each with a fixed number of rows for a scope of their own.
Cell with_experts(Cell cell) {
  cell.model_kind = matrix::ModelKind::moe_drop_and_pad;
  cell.config.num_moe_experts = 4;
  cell.config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  cell.config.moe_shared_expert_intermediate_size = 16;
  cell.config.moe_aux_loss_coeff = 0.01F;
  cell.config.moe_grouped_gemm = true;
  cell.config.moe_expert_capacity_factor = 1.0F;
  cell.config.moe_pad_expert_input_to_capacity = true;
  return cell;
}

Cell callables() {
  Cell cell = small_model();
  cell.config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  cell.shape.eval_interval = 2;
  return cell;
}

Cell callables_of_routers() {
  Cell cell = with_experts(callables());
  cell.config.cuda_graph_scope = {CudaGraphModule::attn, CudaGraphModule::moe_router,
                                  CudaGraphModule::moe_preprocess};
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
  /// Cells to run it on, where one way of capturing says as much as all; empty for all.
  std::array<std::string_view, 2> cells{};
  /// Where faults show that apply to no cell.
  CheckResult (*scenario)(ScenarioContext& context) = nullptr;

  bool runs_on(std::string_view cell) const {
    return cells.front().empty() || std::find(cells.begin(), cells.end(), cell) != cells.end();
  }
};

/// The first row whose prefix fits decides.
constexpr std::array fault_expectations{
    FaultExpectation{"F01e", Verdict::fail_stale_input, "NUM-05"},
    FaultExpectation{"F01f", Verdict::fail_stale_input, "NUM-26"},
    FaultExpectation{"F01g", Verdict::fail_stale_input, "COM-30"},
    FaultExpectation{"F01", Verdict::fail_stale_input, "MEM-09"},
    FaultExpectation{"F02b", Verdict::fail_illegal_access, ""},
    FaultExpectation{"F02f", Verdict::fail_stale_address, "NUM-23"},
    FaultExpectation{"F02", Verdict::fail_stale_address, "MEM-07"},
    FaultExpectation{"F04", Verdict::fail_overwrite, "MEM-09"},
    FaultExpectation{"F06", Verdict::fail_schedule_order, "CON-17"},
    FaultExpectation{"F07d", Verdict::fail_rng_state, "NUM-25"},
    FaultExpectation{"F07", Verdict::fail_rng_state, "NUM-08"},
    FaultExpectation{"F09", Verdict::fail_rng_recompute, "NUM-12"},
    FaultExpectation{"F11f", Verdict::fail_numeric_mismatch, "NUM-29", {"local", "full-iteration"}},
    FaultExpectation{"F11g", Verdict::fail_state_frozen, "NUM-19"},
    FaultExpectation{"F11", Verdict::fail_state_frozen, "NUM-17"},
    FaultExpectation{.id_prefix = "F12a",
                     .verdict = Verdict::fail_fp8_state,
                     .check_id = "NUM-14",
                     .scenario = checks::judge_doubling_range},
    FaultExpectation{"F12b", Verdict::fail_fp8_state, "NUM-14"},
    FaultExpectation{"F12c", Verdict::fail_fp8_state, "NUM-15"},
    FaultExpectation{"F12d", Verdict::fail_fp8_state, "NUM-16"},
    FaultExpectation{"F12e", Verdict::fail_fp8_state, "NUM-06"},
    FaultExpectation{"F14", Verdict::fail_grad_accum, "NUM-02"},
    FaultExpectation{"F16", Verdict::fail_truncation, "NUM-21"},
    FaultExpectation{"F17", Verdict::fail_missing_edge, "CCY-02"},
    FaultExpectation{"F19j", Verdict::fail_capture, "COM-30"},
    FaultExpectation{"F19", Verdict::fail_capture, "LIF-01", {"local", "full-iteration-pipeline"}},
    FaultExpectation{.id_prefix = "F23",
                     .verdict = Verdict::fail_recovery,
                     .check_id = "LIF-03",
                     .scenario = checks::judge_capture_recovery},
    FaultExpectation{"F24", Verdict::fail_comm_nonuniform, "COM-09"},
    FaultExpectation{"F30b", Verdict::fail_leak, "MEM-01"},
    FaultExpectation{"F30f", Verdict::fail_leak, "MEM-03", {"local", "transformer-engine"}},
    FaultExpectation{
        "F30", Verdict::fail_leak, "MEM-01", {"full-iteration", "transformer-engine-pipeline"}},
    FaultExpectation{.id_prefix = "F32a",
                     .verdict = Verdict::fail_teardown,
                     .check_id = "LIF-08",
                     .scenario = checks::judge_communicator_teardown},
    FaultExpectation{.id_prefix = "F32b",
                     .verdict = Verdict::fail_teardown,
                     .check_id = "LIF-08",
                     .scenario = checks::judge_communicator_teardown},
    FaultExpectation{.id_prefix = "F32g",
                     .verdict = Verdict::fail_teardown,
                     .check_id = "LIF-08",
                     .scenario = checks::judge_teardown_of_ranks},
    FaultExpectation{.id_prefix = "F32h",
                     .verdict = Verdict::fail_teardown,
                     .check_id = "LIF-08",
                     .scenario = checks::judge_communicator_teardown},
    FaultExpectation{"F32", Verdict::fail_teardown, "LIF-07", {"local-pipeline", "full-iteration"}},
    FaultExpectation{"F34f", Verdict::fail_coverage, "NUM-26"},
    FaultExpectation{"F34", Verdict::fail_coverage, "TLG-03"},
    FaultExpectation{
        "F36", Verdict::fail_overwrite, "MEM-17", {"local", "full-iteration-pipeline"}},
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
  bool (*applies)(const Cell& cell) = nullptr;  ///< null for every cell
};

bool runs_on_a_gang(const Cell& cell) {
  return cell.ranks() > 1;
}

constexpr std::array sabotage_rows{
    SabotageRow{Sabotage::replay_does_nothing, "replay-does-nothing", std::nullopt, "TLG-03"},
    SabotageRow{Sabotage::replay_runs_eager_code, "replay-runs-eager-code", std::nullopt, "TLG-03"},
    SabotageRow{Sabotage::comparator_says_equal, "comparator-says-equal", Verdict::fail_suite,
                "NUM-33"},
    SabotageRow{Sabotage::capture_executes_at_once, "capture-executes-at-once", std::nullopt,
                "LIF-17"},
    SabotageRow{Sabotage::communicator_reports_error, "communicator-reports-error", std::nullopt,
                "COM-22", runs_on_a_gang},
    SabotageRow{Sabotage::timed_replay_does_nothing, "timed-replay-does-nothing", std::nullopt,
                "PRF-07"},
};

Cell validated_iteration() {
  Cell cell = full_iteration();
  cell.shape.eval_interval = 2;
  return cell;
}

void add_controls(std::vector<SelftestRow>& rows) {
  for (const SelftestCell& base : selftest_cells()) {
    rows.push_back({.id = fmt::format("off/{}", base.name),
                    .kind = SelftestKind::control,
                    .statement = fmt::format("every fault off on the cell {}", base.name),
                    .cell = base.cell,
                    .expected = Verdict::pass});
  }
  rows.push_back({.id = "off/guard-pages",
                  .kind = SelftestKind::control,
                  .statement = "every fault off on the cell local, guard pages behind its blocks",
                  .cell = local_layers(),
                  .guard_pages = "end",
                  .expected = Verdict::pass});
  Cell expandable = local_pipeline();
  expandable.platform.expandable_segments = true;
  expandable.platform.expandable_segments_as_tested = true;
  expandable.platform.nccl_graph_register = false;
  rows.push_back({.id = "off/expandable-segments",
                  .kind = SelftestKind::control,
                  .statement = "buffers of two stages span several physical chunks",
                  .cell = expandable,
                  .expected = Verdict::pass});
  rows.push_back({.id = "C1",
                  .kind = SelftestKind::control,
                  .statement = "independent graphs in one pool, outputs consumed before the next "
                               "launch, replayed in shuffled order",
                  .scenario = checks::judge_shared_pool_control,
                  .expected = Verdict::pass});
  rows.push_back({.id = "C3",
                  .kind = SelftestKind::control,
                  .statement = "one executable launched on two streams without an event",
                  .scenario = checks::judge_one_executable_on_two_streams,
                  .expected = Verdict::pass});
  rows.push_back({.id = "C8",
                  .kind = SelftestKind::control,
                  .statement = "two ranks replay a graph without communication unequally often",
                  .scenario = checks::replay_unequally_without_communicator,
                  .scenario_ranks = 2,
                  .expected = Verdict::pass});
  rows.push_back({.id = "C12",
                  .kind = SelftestKind::control,
                  .statement = "a floating-point sum in another order, within tolerance",
                  .scenario = checks::judge_sums_in_another_order,
                  .expected = Verdict::pass});
  rows.push_back({.id = "off/two-communicators",
                  .kind = SelftestKind::control,
                  .statement = "two graphs on two communicators, launched in one order",
                  .scenario = checks::launch_in_one_order,
                  .scenario_ranks = 2,
                  .expected = Verdict::pass});
  rows.push_back({.id = "C9",
                  .kind = SelftestKind::control,
                  .statement = "the first cycle raises memory once, and it stays flat",
                  .scenario = checks::judge_raised_once,
                  .expected = Verdict::pass});
  rows.push_back({.id = "off/reseed",
                  .kind = SelftestKind::control,
                  .statement = "a new seed between replays, and the old one again",
                  .scenario = checks::judge_reseed,
                  .expected = Verdict::pass});
  rows.push_back({.id = "off/saved-random-state",
                  .kind = SelftestKind::control,
                  .statement = "random state saved and restored between eager draws and replays",
                  .scenario = checks::judge_saved_random_state,
                  .expected = Verdict::pass});
  rows.push_back({.id = "off/doubling-range",
                  .kind = SelftestKind::control,
                  .statement = "a range that doubles at every step, quantised in 8 bits",
                  .scenario = checks::judge_doubling_range,
                  .expected = Verdict::pass});
  rows.push_back({.id = "off/masks-of-ranks",
                  .kind = SelftestKind::control,
                  .statement = "two tensor-parallel ranks draw masks of what they share and part",
                  .scenario = checks::judge_masks_of_ranks,
                  .scenario_ranks = 2,
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
  const Cell validated = validated_iteration();
  rows.push_back({.id = "C10",
                  .kind = SelftestKind::control,
                  .statement = "validation every second step with its own graph and buffers",
                  .cell = validated,
                  .expected = Verdict::pass});
  rows.push_back({.id = "C10/local",
                  .kind = SelftestKind::control,
                  .statement = "eager validation between replays of layer graphs",
                  .cell = local_layers(),
                  .expected = Verdict::pass});
  Cell interleaved = callables_pipeline();
  interleaved.config.virtual_pipeline_model_parallel_size = 2;
  rows.push_back({.id = "interleaved",
                  .kind = SelftestKind::control,
                  .statement = "two model chunks a stage take static inputs from one another",
                  .cell = interleaved,
                  .expected = Verdict::pass});
  Cell replicated = full_iteration();
  replicated.config.data_parallel_size = 2;
  replicated.shape.bucket_size = 256;
  rows.push_back({.id = "replicated",
                  .kind = SelftestKind::control,
                  .statement = "gradients are reduced on a branch of the captured iteration",
                  .cell = replicated,
                  .expected = Verdict::pass});
  Cell partly_graphed = local_layers();
  partly_graphed.shape.graphed_layers = matrix::GraphedLayers::odd;
  rows.push_back({.id = "partly-graphed",
                  .kind = SelftestKind::control,
                  .statement = "graphed and eager layers take turns",
                  .cell = partly_graphed,
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
      if (!fault.applies(base.cell) || !base.takes(fault.id) || !expectation.runs_on(base.name)) {
        continue;
      }
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

/// Faults that need more than a cell's switches, or a cell of their own.
void add_special_faults(std::vector<SelftestRow>& rows) {
  const FaultRow& drawing =
      workloads::fault_row(workloads::Fault::f07d_validation_draws_from_training);
  const FaultExpectation& expectation = expectation_of(drawing);
  rows.push_back({.id = fmt::format("{}/validated", drawing.id),
                  .kind = SelftestKind::fault,
                  .statement = std::string(drawing.injection),
                  .cell = validated_iteration(),
                  .faults = {drawing.fault},
                  .expected = expectation.verdict,
                  .check_id = std::string(expectation.check_id)});
  const FaultRow& overrun = workloads::fault_row(workloads::Fault::f36_written_past_the_end);
  for (const SelftestCell& base : selftest_cells()) {
    if (!expectation_of(overrun).runs_on(base.name)) continue;
    // The page behind the block makes the write itself fail, before any canary is looked at.
    rows.push_back({.id = fmt::format("{}/{}/guard-pages", overrun.id, base.name),
                    .kind = SelftestKind::fault,
                    .statement = fmt::format("{}, and a guard page lies there", overrun.injection),
                    .cell = base.cell,
                    .faults = {overrun.fault},
                    .guard_pages = "end",
                    .expected = Verdict::fail_illegal_access});
  }
  for (const workloads::Fault frozen :
       {workloads::Fault::f07a_offset_by_value, workloads::Fault::f07b_offset_not_advanced,
        workloads::Fault::f07c_graph_safe_request_dropped}) {
    const FaultRow& fault = workloads::fault_row(frozen);
    rows.push_back({.id = fmt::format("{}/reseed", fault.id),
                    .kind = SelftestKind::fault,
                    .statement = std::string(fault.injection),
                    .faults = {frozen},
                    .scenario = checks::judge_reseed,
                    .expected = Verdict::fail_rng_state,
                    .check_id = "NUM-09"});
    rows.push_back({.id = fmt::format("{}/saved-state", fault.id),
                    .kind = SelftestKind::fault,
                    .statement = std::string(fault.injection),
                    .faults = {frozen},
                    .scenario = checks::judge_saved_random_state,
                    .expected = Verdict::fail_rng_state,
                    .check_id = "NUM-10"});
  }
  rows.push_back({.id = "F07/one-stream-on-all-parts",
                  .kind = SelftestKind::fault,
                  .statement = "tensor-parallel ranks draw from one stream of random numbers",
                  .scenario = checks::draw_parts_from_one_stream,
                  .scenario_ranks = 2,
                  .expected = Verdict::fail_rng_state,
                  .check_id = "NUM-11"});
  rows.push_back({.id = "F26/two-communicators",
                  .kind = SelftestKind::fault,
                  .statement = "two graphs on two communicators, launched in the opposite order by "
                               "the last rank",
                  .scenario = checks::launch_in_opposite_order,
                  .scenario_ranks = 2,
                  .expected = Verdict::fail_comm_order,
                  .check_id = "COM-11"});
}

void add_sabotages(std::vector<SelftestRow>& rows) {
  for (const SabotageRow& sabotage : sabotage_rows) {
    for (const SelftestCell& base : selftest_cells()) {
      if (!base.takes(sabotage.name) ||
          (sabotage.applies != nullptr && !sabotage.applies(base.cell))) {
        continue;
      }
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

std::vector<SelftestRow> collect_rows() {
  std::vector<SelftestRow> rows;
  add_controls(rows);
  add_faults(rows);
  add_special_faults(rows);
  add_early_returns(rows);
  add_sabotages(rows);
  for (SelftestRow& row : tampering_rows()) rows.push_back(std::move(row));
  add_runner_rows(rows);
  return rows;
}

bool fired(const CellResult& result, std::string_view check_id) {
  if (result.check_id == check_id) return true;
  return std::any_of(
      result.secondary.begin(), result.secondary.end(),
      [&](const std::string& text) { return text.starts_with(fmt::format("{} ", check_id)); });
}

/// The world rank that a row's failure has to name; -1 where no such rank reported.
int world_rank_of(const SelftestRow& row, const CellResult& result) {
  // A second attempt can run on other ranks than the first one, which a flaky cell failed in.
  const std::vector<RankReport>& ranks = result.verdict == Verdict::flaky && !result.earlier.empty()
                                             ? result.earlier.front().ranks
                                             : result.ranks;
  const auto report = std::find_if(ranks.begin(), ranks.end(), [&](const RankReport& rank) {
    return rank.rank == row.failing_rank;
  });
  return report == ranks.end() ? -1 : report->world_rank;
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

bool SelftestCell::takes(std::string_view switched) const {
  std::string_view rest = only;
  while (true) {
    const std::size_t end = rest.find(' ');
    if (switched.starts_with(rest.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 1);
  }
}

std::span<const SelftestCell> selftest_cells() {
  static const std::vector<SelftestCell> cells = with_variants({
      {"local", local_layers(), ""},
      {"local-pipeline", local_pipeline(), ""},
      {"full-iteration", full_iteration(), ""},
      {"full-iteration-pipeline", full_iteration_pipeline(), ""},
      {"transformer-engine", callables(), ""},
      {"transformer-engine-pipeline", callables_pipeline(), ""},
      {"recompute", recomputed_iteration(), "F09"},
      {"optimizer", with_optimizer_graph(full_iteration()), "F11"},
      {"whole-step", with_clipping(formed(matrix::CaptureForm::whole_step)), "F11"},
      {"partitioned", formed(matrix::CaptureForm::partitioned), "F11"},
      {"callable-pair", formed(matrix::CaptureForm::callables), ""},
      {"local-optimizer", with_clipping(with_optimizer_graph(local_layers())), "F11"},
      {"experts", with_experts(full_iteration()), "F16"},
      {"experts-transformer-engine", callables_of_routers(), "F16"},
  });
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
  } else if (row.failing_rank >= 0 && result.failing_rank != world_rank_of(row, result)) {
    why =
        fmt::format("{} came out, but rank {} was named in place of {}",
                    verdict_name(result.verdict), result.failing_rank, world_rank_of(row, result));
  }
  return why.empty();
}

}  // namespace cgconform::suites
