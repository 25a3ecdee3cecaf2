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

#include "harness/protocol.hpp"
#include "matrix/cell_name.hpp"
#include "matrix/classification.hpp"
#include "matrix/error.hpp"
#include "suites/cell_plan.hpp"
#include "suites/check.hpp"

namespace cgconform::harness {
namespace {

using matrix::CellPlan;
using matrix::CellStatus;
using matrix::Classification;
using suites::CellResult;
using suites::Verdict;

constexpr std::size_t cells_ahead = 1024;

struct Census {
  reports::PlannedCounts counts;
  std::uint64_t too_few_ranks = 0;
  int ranks_needed = 0;  ///< by the smallest of those
};

Census take_census(const CellPlan& plan, int ranks) {
  Census census;
  plan.for_each([&](const CellPlan::Entry& entry) {
    ++census.counts.total;
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

/// The scenarios that are run once a run, beside the cells; a run of chosen cells has none.
std::vector<PlannedCell> scenario_cells(const RunOptions& options) {
  std::vector<PlannedCell> cells;
  if (!options.filter.empty() || !options.cells.empty()) return cells;
  using suites::CheckSubject;
  constexpr std::array<std::pair<CheckSubject, const char*>, 2> kinds{{
      {CheckSubject::device_scenario, device_scenarios},
      {CheckSubject::run_scenario, run_scenarios},
  }};
  for (const auto& [subject, kind] : kinds) {
    const auto& checks = suites::check_table();
    const bool any =
        std::any_of(checks.begin(), checks.end(),
                    [wanted = subject](const auto& check) { return check.subject == wanted; });
    if (!any) continue;
    PlannedCell& planned = cells.emplace_back();
    planned.name.id = fmt::format("scenarios={}", kind);
    planned.name.hash = matrix::hash_text(matrix::hash_id(planned.name.id));
    planned.cell.index = std::numeric_limits<std::uint64_t>::max() - cells.size();
    planned.scenario = kind;
    planned.faults = options.faults;
  }
  return cells;
}

/// Walks a plan in a thread and hands its items out one by one.
class MatrixSource final : public CellSource {
 public:
  MatrixSource(std::shared_ptr<const CellPlan> plan, int ranks, RunOptions options,
               const reports::PlannedCounts& counts, std::vector<PlannedCell> scenarios)
      : scenarios_(std::move(scenarios)),
        plan_(std::move(plan)),
        ranks_(ranks),
        options_(std::move(options)),
        counts_(counts),
        walker_([this](const std::stop_token& stop) { walk(stop); }) {}

  const reports::PlannedCounts& counts() const override { return counts_; }

  std::optional<SourceItem> next() override {
    if (!scenarios_.empty()) {
      SourceItem item = std::move(scenarios_.back());
      scenarios_.pop_back();
      return item;
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
  void walk(const std::stop_token& stop) {
    std::exception_ptr failure;
    try {
      plan_->for_each([&](const CellPlan::Entry& entry) {
        SourceItem item = item_of(entry);
        std::unique_lock lock(mutex_);
        const bool room = changed_.wait(lock, stop, [this] { return queue_.size() < cells_ahead; });
        if (!room) return false;
        queue_.push_back(std::move(item));
        changed_.notify_all();
        return true;
      });
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    ended_ = true;
    changed_.notify_all();
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
      planned.sabotage = options_.sabotage;
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

std::unique_ptr<CellSource> matrix_source(std::shared_ptr<const CellPlan> plan, int ranks,
                                          const RunOptions& options) {
  Census census = take_census(*plan, ranks);
  if (census.counts.run == 0 && census.too_few_ranks > 0) {
    throw InputError(fmt::format(
        "matrix {}: every cell that could run needs more ranks than this run has ({}); start it "
        "with at least {}: mpirun -np {} cgconform ...",
        options.matrix, ranks, census.ranks_needed, census.ranks_needed));
  }
  std::vector<PlannedCell> scenarios = scenario_cells(options);
  census.counts.total += scenarios.size();
  census.counts.run += scenarios.size();
  return std::make_unique<MatrixSource>(std::move(plan), ranks, options, census.counts,
                                        std::move(scenarios));
}

}  // namespace cgconform::harness
