#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/selftest_tampering.hpp"
#include "tests/suites/gang_scenario.hpp"
#include "tests/suites/in_process_cell.hpp"

namespace cgconform::suites {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using workloads::Fault;

TEST(SelftestTable, GivesEveryFaultACellAndAnExactVerdict) {
  std::set<Fault> covered;
  std::set<std::string> ids;
  for (const SelftestRow& row : selftest_table()) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id;
    EXPECT_FALSE(row.statement.empty()) << row.id;
    const int ways =
        (row.cell ? 1 : 0) + (row.scenario != nullptr ? 1 : 0) + (row.mock.empty() ? 0 : 1);
    EXPECT_EQ(ways, 1) << row.id << " must be run in one way";
    if (row.kind != SelftestKind::fault) continue;
    covered.insert(row.faults.begin(), row.faults.end());
    ASSERT_TRUE(row.expected.has_value()) << row.id;
    EXPECT_TRUE(is_bad(*row.expected)) << row.id;
  }
  for (const workloads::FaultRow& fault : workloads::fault_table()) {
    EXPECT_TRUE(covered.contains(fault.fault)) << fault.id << " applies to no cell";
  }
}

TEST(SelftestTable, RunsEachFaultsCellWithTheFaultOffBeforeAnyFault) {
  const auto rows = selftest_table();
  const auto first_fault = std::find_if(rows.begin(), rows.end(), [](const SelftestRow& row) {
    return row.kind == SelftestKind::fault;
  });
  for (const SelftestCell& base : selftest_cells()) {
    const std::string id = "off/" + std::string(base.name);
    const auto control = std::find_if(rows.begin(), first_fault,
                                      [&](const SelftestRow& row) { return row.id == id; });
    ASSERT_NE(control, first_fault) << id;
    EXPECT_EQ(control->expected, Verdict::pass);
    EXPECT_THAT(control->faults, IsEmpty());
  }
}

TEST(SelftestTable, HoldsTheControlsTheSabotagesAndTheRunnerRows) {
  std::set<std::string> ids;
  std::set<workloads::Sabotage> sabotages;
  for (const SelftestRow& row : selftest_table()) {
    ids.insert(row.id);
    if (row.sabotage != workloads::Sabotage::none) sabotages.insert(row.sabotage);
  }
  for (const char* id : {"C1", "C3", "C8", "C10", "C11", "C12", "runner/segfault", "runner/hang",
                         "runner/exit_zero"}) {
    EXPECT_TRUE(ids.contains(id)) << id;
  }
  EXPECT_EQ(sabotages.size(), 6U);
}

TEST(SelftestTable, DetectsAVerdictThatIsNotTheExpectedOne) {
  SelftestRow row{
      .kind = SelftestKind::fault, .expected = Verdict::fail_stale_input, .check_id = "MEM-09"};
  std::string why;
  CellResult result{.verdict = Verdict::fail_stale_input, .check_id = "MEM-09"};
  EXPECT_TRUE(selftest_holds(row, result, why));
  EXPECT_EQ(why, "");

  result.verdict = Verdict::fail_numeric_mismatch;
  EXPECT_FALSE(selftest_holds(row, result, why));
  EXPECT_THAT(why, HasSubstr("expected FAIL_STALE_INPUT, got FAIL_NUMERIC_MISMATCH"));

  result.verdict = Verdict::fail_stale_input;
  result.check_id = "NUM-01";
  EXPECT_FALSE(selftest_holds(row, result, why));
  EXPECT_THAT(why, HasSubstr("MEM-09 did not fire"));
  result.secondary = {"MEM-09 FAIL_STALE_INPUT"};
  EXPECT_TRUE(selftest_holds(row, result, why));
}

TEST(SelftestTable, AcceptsAnyFailingVerdictOnlyWhereNoneIsNamed) {
  const SelftestRow row{.kind = SelftestKind::sabotage};
  std::string why;
  EXPECT_TRUE(selftest_holds(row, {.verdict = Verdict::fail_coverage}, why));
  EXPECT_FALSE(selftest_holds(row, {.verdict = Verdict::pass}, why));
  EXPECT_FALSE(selftest_holds(row, {.verdict = Verdict::skip}, why));
}

// SUI-10
TEST(SelftestTable, DetectsAFailureThatIsNamedOnAnotherRank) {
  const SelftestRow row{
      .kind = SelftestKind::runner, .expected = Verdict::crash, .failing_rank = 1};
  CellResult result{.verdict = Verdict::crash, .failing_rank = 3};
  result.ranks = {{.rank = 0, .world_rank = 2}, {.rank = 1, .world_rank = 3}};
  std::string why;
  EXPECT_TRUE(selftest_holds(row, result, why)) << why;
  result.failing_rank = 2;
  EXPECT_FALSE(selftest_holds(row, result, why));
  EXPECT_THAT(why, HasSubstr("rank 2 was named in place of 3"));
}

std::vector<SelftestRow> in_process_rows() {
  std::vector<SelftestRow> rows;
  for (const SelftestRow& row : selftest_table()) {
    const bool on_one_rank = !row.mishap.empty() || row.fault_rank >= 0;
    if (row.cell && !on_one_rank && row.expected != Verdict::fail_illegal_access)
      rows.push_back(row);
  }
  return rows;
}

std::string test_name(const testing::TestParamInfo<SelftestRow>& info) {
  std::string name = info.param.id;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '-'; }, '_');
  return name;
}

class SelftestRows : public testing::TestWithParam<SelftestRow> {};

TEST_P(SelftestRows, EndsAsTheTableSays) {
  const SelftestRow& row = GetParam();
  const CellResult result =
      run_in_process({.cell = *row.cell, .faults = row.faults, .sabotage = row.sabotage});
  std::string why;
  EXPECT_TRUE(selftest_holds(row, result, why)) << why;
}

INSTANTIATE_TEST_SUITE_P(InProcess, SelftestRows, testing::ValuesIn(in_process_rows()), test_name);

TEST(SelftestScenarios, OfAGangEndAsTheTableSays) {
  int rows = 0;
  for (const SelftestRow& row : selftest_table()) {
    if (row.scenario == nullptr || row.scenario_ranks < 2) continue;
    ++rows;
    workloads::FaultSwitches faults;
    for (const workloads::Fault fault : row.faults) faults.turn_on(fault);
    auto reports = run_gang([&row, &faults](ScenarioContext& context) {
      context.faults = &faults;
      RankReport report;
      CheckResult result = row.scenario(context);
      if (result.check_id.empty()) result.check_id = row.check_id;
      report.checks.push_back(std::move(result));
      return report;
    });
    const CellResult result = merge_reports({.id = row.id, .ranks = 2}, std::move(reports));
    std::string why;
    EXPECT_TRUE(selftest_holds(row, result, why)) << row.id << ": " << why;
  }
  EXPECT_EQ(rows, 7);
}

TEST(SelftestTampering, TurnsTheCheckRedThatGuardsTheRule) {
  int tampered = 0;
  for (const SelftestRow& row : tampering_rows()) {
    ScenarioContext context{
        .seed = 1, .tampering = row.tampering, .tampered_rule = row.tampered_rule};
    const CheckResult result = row.scenario(context);
    EXPECT_EQ(result.verdict, row.expected) << row.id << ": " << result.detail;
    EXPECT_NE(find_check(row.check_id), nullptr) << row.id;
    tampered += row.tampering == RuleTampering::none ? 0 : 1;
  }
  EXPECT_GT(tampered, 70);
}

TEST(SelftestControls, PassOnAnotherSeed) {
  for (const SelftestRow& row : in_process_rows()) {
    if (row.kind != SelftestKind::control) continue;
    const CellResult result = run_in_process({.cell = *row.cell, .seed = 77});
    EXPECT_EQ(result.verdict, Verdict::pass) << row.id << ": " << result.reason;
  }
}

TEST(SelftestControls, ACellWhoseScopeSelectsNoLayerNeverPasses) {
  matrix::Cell cell = selftest_cells().front().cell;
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::mamba};
  const CellResult result = run_in_process({.cell = cell});
  EXPECT_EQ(result.verdict, Verdict::fail_coverage) << result.reason;
}

const matrix::Cell& cell_named(std::string_view name) {
  const auto& cells = selftest_cells();
  const auto found = std::find_if(cells.begin(), cells.end(),
                                  [&](const SelftestCell& cell) { return cell.name == name; });
  if (found == cells.end()) throw InternalError("no such cell");
  return found->cell;
}

/// Verdicts of a rank, by check.
std::map<std::string, Verdict> verdicts_of(const RankReport& report) {
  std::map<std::string, Verdict> verdicts;
  for (const CheckResult& check : report.checks) verdicts[check.check_id] = check.verdict;
  return verdicts;
}

TEST(SelftestControls, EightBitsPassInEveryKindOfModelThatHasThem) {
  for (const bool hybrid : {false, true}) {
    matrix::Cell cell = cell_named("fp8");
    cell.config.multi_latent_attention = true;
    cell.config.is_hybrid_model = hybrid;
    if (hybrid) cell.config.num_layers = 4;
    const CellResult result = run_in_process({.cell = cell});
    EXPECT_EQ(result.verdict, Verdict::pass) << result.check_id << ": " << result.reason;
  }
}

TEST(SelftestControls, AStageWithoutALayerInScopeIsJudgedByWhatItRunsEagerly) {
  matrix::Cell cell = cell_named("hybrid");
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::attn};
  cell.config.pipeline_model_parallel_size = 2;
  const CellResult result = run_in_process({.cell = cell});
  EXPECT_EQ(result.verdict, Verdict::pass) << result.check_id << ": " << result.reason;
  ASSERT_EQ(result.ranks.size(), 2U);
  EXPECT_EQ(result.ranks[0].captures, 0U) << "a Mamba layer";
  EXPECT_GT(result.ranks[1].captures, 0U);
  const auto verdicts = verdicts_of(result.ranks[0]);
  EXPECT_EQ(verdicts.at("TLG-01"), Verdict::skip);
  EXPECT_EQ(verdicts.at("TLG-03"), Verdict::pass);
  EXPECT_EQ(verdicts.at("NUM-01"), Verdict::pass);
}

TEST(SelftestControls, AStageWhoseOptimizerAloneIsAGraphIsJudgedByIt) {
  matrix::Cell cell = cell_named("hybrid");
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::attn};
  cell.config.pipeline_model_parallel_size = 2;
  cell.config.optimizer_cuda_graph = true;
  const CellResult result = run_in_process({.cell = cell});
  EXPECT_EQ(result.verdict, Verdict::pass) << result.check_id << ": " << result.reason;
  EXPECT_GT(result.ranks.at(0).captures, 0U);
  const auto verdicts = verdicts_of(result.ranks.at(0));
  EXPECT_EQ(verdicts.at("TLG-01"), Verdict::pass);
  EXPECT_EQ(verdicts.at("CON-17"), Verdict::skip);
}

TEST(SelftestControls, AnIterationInPartsRecomputesAndNeedsNoValidation) {
  matrix::Cell cell = cell_named("partitioned");
  cell.config.recompute_granularity = matrix::RecomputeGranularity::full;
  cell.config.recompute_method = matrix::RecomputeMethod::uniform;
  cell.config.recompute_num_layers = 1;
  cell.shape.eval_interval = 0;
  const CellResult result = run_in_process({.cell = cell});
  EXPECT_EQ(result.verdict, Verdict::pass) << result.check_id << ": " << result.reason;
  const auto verdicts = verdicts_of(result.ranks.at(0));
  EXPECT_EQ(verdicts.at("TLG-03"), Verdict::pass) << "the first part holds no backward";
  EXPECT_EQ(verdicts.at("MEM-03"), Verdict::pass) << "parts have one pool whoever shares";
}

TEST(SelftestControls, AnOptimizerCapturedBeforeItsIterationHasAPoolOfItsOwn) {
  matrix::Cell cell = cell_named("partial-iteration");
  cell.config.optimizer_cuda_graph = true;
  cell.config.cuda_graph_warmup_steps = 3;  // the partial batch of step 2 counts for one alone
  cell.shape.eval_interval = 0;
  const CellResult result = run_in_process({.cell = cell});
  EXPECT_EQ(result.verdict, Verdict::pass) << result.check_id << ": " << result.reason;
  EXPECT_EQ(verdicts_of(result.ranks.at(0)).at("MEM-03"), Verdict::pass);
}

TEST(SelftestControls, GraphsOfTheLastLayerLeaveTheFirstStageWithout) {
  matrix::Cell cell = cell_named("transformer-engine-pipeline");
  cell.shape.graphed_layers = matrix::GraphedLayers::last;
  const CellResult result = run_in_process({.cell = cell});
  EXPECT_EQ(result.verdict, Verdict::pass) << result.check_id << ": " << result.reason;
  EXPECT_EQ(result.ranks.at(0).captures, 0U);
  EXPECT_EQ(verdicts_of(result.ranks.at(0)).at("NUM-24"), Verdict::pass);
}

TEST(SelftestFaults, AnUnmappedTemporaryKillsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run_in_process({.cell = selftest_cells().front().cell,
                               .faults = {Fault::f02b_unmapped_temporary}}),
               "");
}

TEST(SelftestSabotages, WorkThatRunsAtCaptureChangesTheStateThatNum06Guards) {
  for (const SelftestCell& base : selftest_cells()) {
    if (base.cell.ranks() > 1) continue;
    const CellResult result = run_in_process(
        {.cell = base.cell, .sabotage = workloads::Sabotage::capture_executes_at_once});
    std::string why;
    EXPECT_TRUE(selftest_holds({.check_id = "NUM-06"}, result, why)) << base.name << ": " << why;
  }
}

TEST(SelftestFaults, AnEagerCellIsBaselineWithEveryFaultOn) {
  matrix::Cell cell = selftest_cells().front().cell;
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::none;
  std::vector<Fault> all;
  for (const workloads::FaultRow& fault : workloads::fault_table()) all.push_back(fault.fault);
  const CellResult result = run_in_process({.cell = cell, .faults = all});
  EXPECT_EQ(result.verdict, Verdict::baseline) << result.reason;
}

/// A cell whose graphs draw from states on the device and whose host reads no loss.
matrix::Cell capturable_cell() {
  matrix::Cell cell;
  cell.config.use_te_rng_tracker = true;
  cell.config.te_rng_tracker = true;
  cell.config.check_for_nan_in_loss = false;
  cell.config.check_for_nan_in_grad = false;
  cell.config.check_for_nan_in_loss_and_grad = false;
  return cell;
}

TEST(HealthyCells, AnIterationCapturedAtItsFirstCallPasses) {
  matrix::Cell cell = capturable_cell();
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::local;
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.cuda_graph_warmup_steps = 0;
  cell.config.num_layers = 1;
  cell.config.hidden_size = 8;
  cell.config.num_attention_heads = 1;
  cell.config.seq_length = 2;
  cell.shape.eval_interval = 1;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    const CellResult result = run_in_process({.cell = cell, .seed = seed});
    EXPECT_EQ(result.verdict, Verdict::pass) << seed << ": " << result.reason;
  }
}

TEST(AccumulationFault, IsNamedAlsoWhereEveryStepIsFollowedByValidation) {
  matrix::Cell cell = capturable_cell();
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::local;
  cell.config.num_layers = 2;
  cell.config.hidden_size = 8;
  cell.config.num_attention_heads = 2;
  cell.config.seq_length = 8;
  cell.config.num_microbatches = 3;
  cell.shape.eval_interval = 1;
  const CellResult result =
      run_in_process({.cell = cell, .faults = {workloads::Fault::f14b_accumulate_never_zeroed}});
  EXPECT_EQ(result.verdict, Verdict::fail_grad_accum) << result.reason;
}

}  // namespace
}  // namespace cgconform::suites
