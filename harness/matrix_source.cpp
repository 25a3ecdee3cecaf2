#include "harness/matrix_source.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/lift.hpp"
#include "harness/protocol.hpp"
#include "harness/rounds_source.hpp"
#include "matrix/cell_name.hpp"
#include "matrix/classification.hpp"
#include "matrix/error.hpp"
#include "suites/cell_plan.hpp"

namespace cgconform::harness {
namespace {

using matrix::CellPlan;
using matrix::CellStatus;
using matrix::Classification;
using suites::CellResult;
using suites::Verdict;

/// As few as a communicator can have.
constexpr int ranks_of_gang_scenarios = 2;
constexpr std::size_t cells_ahead = 1024;

struct Census {
  reports::PlannedCounts counts;
  std::uint64_t too_few_ranks = 0;
  int ranks_needed = 0;      ///< by the smallest of those
  std::uint64_t lifted = 0;  ///< that run, or would, with a guard lifted
};

Census take_census(const CellPlan& plan, int ranks, const std::vector<std::string>& lifts) {
  Census census;
  plan.for_each([&](const CellPlan::Entry& entry) {
    ++census.counts.total;
    const bool lifted = !entry.classification.lifted.empty() ||
                        !lifted_in_workload(lifts, entry.normalised).empty();
    if (lifted && entry.classification.status != CellStatus::refused) ++census.lifted;
    if (entry.classification.status == CellStatus::refused) {
      ++census.counts.refused;
    } else if (entry.classification.status == CellStatus::skipped) {
      ++census.counts.skipped;
    } else if (entry.cell.ranks() > ranks) {
      ++census.counts.skipped;
      ++census.too_few_ranks;
      census.ranks_needed = census.ranks_needed == 0
                                ? entry.cell.ranks()
                                : std::min(census.ranks_needed, entry.cell.ranks());
    } else {
      ++census.counts.run;
    }
    return true;
  });
  return census;
}

/// What runs beside the cells, and on how many ranks.
constexpr std::array<std::pair<const char*, int>, 3> scenario_kinds{{
    {gang_scenarios, ranks_of_gang_scenarios},
    {device_scenarios, 1},
    {run_scenarios, 1},
}};
/// Digits of a hash that `--cell` needs at least.
constexpr std::size_t fewest_digits = 6;

std::string scenario_id(const char* kind) {
  return fmt::format("scenarios={}", kind);
}

bool names_scenario(const std::string& cell, const std::string& id) {
  const std::string hash = matrix::hash_text(matrix::hash_id(id));
  return cell == id || (cell.size() >= fewest_digits && hash.starts_with(cell));
}

bool is_chosen(const RunOptions& options, const std::string& id) {
  const Selection& selection = options.selection;
  if (!selection.shard.holds(matrix::hash_id(id))) return false;
  if (!options.cells.empty()) {
    return std::any_of(options.cells.begin(), options.cells.end(),
                       [&](const std::string& cell) { return names_scenario(cell, id); });
  }
  if (!selection.rerun_failed.empty()) {
    return std::find(options.rerun_ids.begin(), options.rerun_ids.end(), id) !=
           options.rerun_ids.end();
  }
  return options.filter.empty();
}

std::vector<PlannedCell> scenario_cells(const RunOptions& options) {
  std::vector<PlannedCell> cells;
  std::uint64_t number = 0;
  for (const auto& [kind, ranks] : scenario_kinds) {
    ++number;
    const std::string id = scenario_id(kind);
    if (!is_chosen(options, id)) continue;
    PlannedCell& planned = cells.emplace_back();
    planned.name.id = id;
    planned.name.hash = matrix::hash_text(matrix::hash_id(id));
    planned.cell.index = std::numeric_limits<std::uint64_t>::max() - number;
    planned.scenario = kind;
    planned.ranks = ranks;
    planned.faults = options.faults;
  }
  return cells;
}

/// Walks a plan in a thread and hands its items out one by one.
class MatrixSource final : public CellSource {
 public:
  MatrixSource(std::shared_ptr<const CellPlan> plan, int ranks, RunOptions options,
               const reports::PlannedCounts& counts, std::vector<PlannedCell> scenarios,
               std::uint64_t round)
      : scenarios_(std::move(scenarios)),
        round_(round),
        plan_(std::move(plan)),
        ranks_(ranks),
        options_(std::move(options)),
        counts_(counts),
        walker_([this](const std::stop_token& stop) { walk(stop); }) {}

  const reports::PlannedCounts& counts() const override { return counts_; }

  std::optional<SourceItem> next() override {
    if (!scenarios_.empty()) {
      PlannedCell planned = std::move(scenarios_.back());
      scenarios_.pop_back();
      if (planned.ranks > ranks_) return too_few_ranks(planned);
      return planned;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty() || ended_; });
    if (queue_.empty()) {
      if (failure_) std::rethrow_exception(failure_);
      return std::nullopt;
    }
    SourceItem item = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    return item;
  }

 private:
  CellResult too_few_ranks(const PlannedCell& planned) const {
    CellResult skipped;
    skipped.index = planned.cell.index;
    skipped.id = planned.name.id;
    skipped.hash = planned.name.hash;
    skipped.verdict = Verdict::skip;
    skipped.reason = fmt::format("too few ranks: needs {}, the run has {}", planned.ranks, ranks_);
    return skipped;
  }

  void walk(const std::stop_token& stop) {
    std::exception_ptr failure;
    try {
      plan_->for_each(
          [&](const CellPlan::Entry& entry) {
            SourceItem item = item_of(entry);
            std::unique_lock lock(mutex_);
            const bool room =
                changed_.wait(lock, stop, [this] { return queue_.size() < cells_ahead; });
            if (!room) return false;
            queue_.push_back(std::move(item));
            changed_.notify_all();
            return true;
          },
          round_);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    ended_ = true;
    changed_.notify_all();
  }

  void lift_guards(const Classification& status, PlannedCell& planned) const {
    for (const matrix::RuleIndex rule : status.lifted) {
      planned.lifted.emplace_back(matrix::rule_id(rule));
    }
    for (std::string& rule : lifted_in_workload(options_.lifts, planned.cell)) {
      const bool known =
          std::find(planned.lifted.begin(), planned.lifted.end(), rule) != planned.lifted.end();
      if (!known) planned.lifted.push_back(std::move(rule));
    }
    for (std::string& fault : lifted_switches(options_.lifts, planned.cell)) {
      planned.faults.push_back(std::move(fault));
    }
  }

  SourceItem item_of(const CellPlan::Entry& entry) const {
    const matrix::CellName name = plan_->expansion().name(entry.index);
    const Classification& status = entry.classification;
    if (status.status == CellStatus::run && entry.cell.ranks() <= ranks_) {
      PlannedCell planned;
      planned.name = name;
      planned.cell = entry.normalised;
      planned.cell.index = entry.index;
      planned.ranks = entry.cell.ranks();
      planned.baseline = status.kind == matrix::CellKind::baseline;
      for (const suites::CheckDefinition* check :
           suites::plan_cell(planned.cell, suites::check_table()).checks) {
        planned.fresh = planned.fresh || check->isolation != suites::Isolation::kept_worker;
        planned.exclusive = planned.exclusive || check->exclusive_gang;
      }
      planned.faults = options_.faults;
      lift_guards(status, planned);
      planned.sabotage = options_.sabotage;
      planned.environment = matrix::cell_environment(planned.cell);
      return planned;
    }
    CellResult result;
    result.index = entry.index;
    result.id = name.id;
    result.hash = name.hash;
    result.verdict = Verdict::skip;
    if (status.status == CellStatus::refused) {
      result.verdict = Verdict::rejected_constraint;
      for (const matrix::RuleIndex rule : status.rules) {
        result.rules.emplace_back(matrix::rule_id(rule));
      }
    } else if (status.status == CellStatus::skipped) {
      result.reason = plan_->skip_reason(status);
    } else {
      result.reason = plan_->skip_reason(matrix::classify_ranks(entry.cell, ranks_));
    }
    return result;
  }

  std::vector<PlannedCell> scenarios_;  ///< the last one first
  std::uint64_t round_;
  std::shared_ptr<const CellPlan> plan_;
  int ranks_;
  RunOptions options_;
  reports::PlannedCounts counts_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<SourceItem> queue_;
  std::exception_ptr failure_;
  bool ended_ = false;
  std::jthread walker_;  ///< last: it uses all of the above
};

}  // namespace

std::unique_ptr<CellSource> matrix_source(const std::shared_ptr<const CellPlan>& plan, int ranks,
                                          const RunOptions& options) {
  Census census = take_census(*plan, ranks, options.lifts);
  if (!options.lifts.empty() && census.lifted == 0) {
    throw InputError(fmt::format(
        "--lift {}: no selected cell of matrix {} has such a guard; choose cells that the rule "
        "refuses, or take `cgconform probe --only {}`",
        fmt::join(options.lifts, ","), options.matrix, options.lifts.front()));
  }
  if (census.counts.run == 0 && census.too_few_ranks > 0) {
    throw InputError(fmt::format(
        "matrix {}: every cell that could run needs more ranks than this run has ({}); start it "
        "with at least {}: mpirun -np {} cgconform ...",
        options.matrix, ranks, census.ranks_needed, census.ranks_needed));
  }
  std::vector<PlannedCell> scenarios = scenario_cells(options);
  census.counts.total += scenarios.size();
  for (const PlannedCell& planned : scenarios) {
    ++(planned.ranks > ranks ? census.counts.skipped : census.counts.run);
  }
  return rounds_source(options.selection, options.seed, [=](std::uint64_t round) {
    return std::make_unique<MatrixSource>(plan, ranks, options, census.counts, scenarios, round);
  });
}

std::vector<std::string> scenario_ids(const RunOptions& options) {
  std::vector<std::string> ids;
  for (const PlannedCell& planned : scenario_cells(options)) ids.push_back(planned.name.id);
  return ids;
}

bool is_scenario(const std::string& cell) {
  return std::any_of(scenario_kinds.begin(), scenario_kinds.end(), [&](const auto& kind) {
    return names_scenario(cell, scenario_id(kind.first));
  });
}

}  // namespace cgconform::harness
