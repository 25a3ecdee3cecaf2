#include "harness/selftest_plan.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/mock_cell.hpp"
#include "harness/switch_names.hpp"
#include "matrix/cell_name.hpp"
#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"
#include "suites/cell_plan.hpp"

namespace cgconform::harness {
namespace {

using suites::CellResult;
using suites::SelftestRow;
using suites::Verdict;

/// Mock cells do nothing that takes long, and some hang.
constexpr double mock_deadline_scale = 0.05;

matrix::CellName row_name(const SelftestRow& row) {
  matrix::CellName name;
  name.id = fmt::format("selftest={}", row.id);
  name.hash = matrix::hash_text(matrix::hash_id(name.id));
  return name;
}

int ranks_of(const SelftestRow& row) {
  if (!row.mock.empty()) return row.mock_ranks;
  return row.cell ? row.cell->ranks() : row.scenario_ranks;
}

PlannedCell planned_row(const SelftestRow& row) {
  PlannedCell planned;
  planned.name = row_name(row);
  planned.ranks = ranks_of(row);
  planned.fresh = !row.kept;
  if (row.cell) {
    planned.cell = *row.cell;
    planned.baseline = !suites::is_graph_cell(*row.cell);
    planned.environment = matrix::cell_environment(*row.cell);
  }
  for (const workloads::Fault fault : row.faults) planned.faults.emplace_back(fault_id(fault));
  planned.fault_rank = row.fault_rank;
  planned.guard_pages = row.guard_pages;
  planned.sabotage = sabotage_name(row.sabotage);
  if (!row.mishap.empty()) planned.mishap = mock_to_text(mock_named(row.mishap, planned.ranks));
  if (!row.mock.empty()) {
    planned.mock = mock_to_text(mock_named(row.mock, row.mock_ranks));
    planned.deadline_scale = mock_deadline_scale;
  }
  if (row.scenario != nullptr) planned.scenario = selftest_scenario + row.id;
  return planned;
}

class SelftestSource final : public CellSource {
 public:
  SelftestSource(std::vector<const SelftestRow*> rows, int ranks)
      : rows_(std::move(rows)), ranks_(ranks) {
    counts_.total = rows_.size();
    counts_.skipped = static_cast<std::uint64_t>(
        std::count_if(rows_.begin(), rows_.end(),
                      [&](const SelftestRow* row) { return ranks_of(*row) > ranks_; }));
    counts_.run = counts_.total - counts_.skipped;
  }
  const reports::PlannedCounts& counts() const override { return counts_; }
  std::optional<SourceItem> next() override {
    if (next_ == rows_.size()) return std::nullopt;
    const SelftestRow& row = *rows_[next_++];
    if (ranks_of(row) <= ranks_) return planned_row(row);
    CellResult skipped;
    const matrix::CellName name = row_name(row);
    skipped.id = name.id;
    skipped.hash = name.hash;
    skipped.verdict = Verdict::skip;
    skipped.reason = fmt::format("too few ranks: needs {}, the run has {}", ranks_of(row), ranks_);
    return skipped;
  }

 private:
  std::vector<const SelftestRow*> rows_;
  int ranks_;
  reports::PlannedCounts counts_;
  std::size_t next_ = 0;
};

/// Turns what came out into what it says about the suite.
CellResult conclude(const SelftestRow& row, CellResult result) {
  std::string why;
  const bool holds = suites::selftest_holds(row, result, why);
  const std::string came_out = fmt::format("{}{}{}", suites::verdict_name(result.verdict),
                                           result.check_id.empty() ? "" : " by ", result.check_id);
  if (holds) {
    result.verdict = Verdict::pass;
    result.reason = fmt::format("{}: {} came out, as it must", row.statement, came_out);
    result.reproducer.clear();
    result.check_id.clear();
    result.failing_rank = -1;
    result.secondary.clear();
    return result;
  }
  result.verdict = Verdict::fail_suite;
  result.reason = fmt::format("{}: {}", row.statement, why);
  return result;
}

}  // namespace

const SelftestRow& selftest_row(std::string_view id) {
  std::vector<std::string_view> known;
  for (const SelftestRow& row : suites::selftest_table()) {
    if (row.id == id) return row;
    known.push_back(row.id);
  }
  throw InputError(fmt::format("--row: unknown row '{}'{}", id, matrix::nearest_hint(id, known)));
}

RunPlan plan_selftest(const RunOptions& options, int ranks) {
  std::vector<const SelftestRow*> rows;
  for (const std::string& id : options.selftest_rows) rows.push_back(&selftest_row(id));
  if (rows.empty()) {
    for (const SelftestRow& row : suites::selftest_table()) rows.push_back(&row);
  }
  std::map<std::string, const SelftestRow*> by_hash;
  for (const SelftestRow* row : rows) by_hash[row_name(*row).hash] = row;

  RunPlan plan;
  plan.source = std::make_unique<SelftestSource>(rows, ranks);
  plan.matrix_name = "selftest";
  plan.judge = [](const reports::RunSummary& summary) {
    const ExitCode code = exit_code_of(summary);
    return code == ExitCode::failed ? ExitCode::selftest_failed : code;
  };
  const auto reproducer = [options](const SelftestRow& row) {
    return fmt::format("{} selftest --row {} --seed {}", program_line(options, ranks_of(row)),
                       shell_quoted(row.id), options.seed);
  };
  plan.reproducer = [by_hash, reproducer](const PlannedCell& planned) {
    return reproducer(*by_hash.at(planned.name.hash));
  };
  plan.conclude = [by_hash, reproducer](CellResult result) {
    const SelftestRow& row = *by_hash.at(result.hash);
    CellResult concluded = conclude(row, std::move(result));
    if (suites::is_bad(concluded.verdict)) concluded.reproducer = reproducer(row);
    return concluded;
  };
  return plan;
}

}  // namespace cgconform::harness
