#include "harness/gang_scheduler.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

using suites::RankReport;

/// True where a worker may not be trusted with another cell.
bool speaks_against_worker(const RankReport& report) {
  return std::any_of(report.checks.begin(), report.checks.end(), [](const auto& check) {
    const suites::VerdictClass kind = suites::verdict_class(check.verdict);
    return kind == suites::VerdictClass::bad || kind == suites::VerdictClass::environment;
  });
}

/// How often a cell goes back to the queue because a worker died between cells.
constexpr int most_stale_returns = 3;
/// Communicators that a worker keeps; the gang that was made first is retired for another one.
constexpr std::size_t most_gangs_of_a_rank = 4;

}  // namespace

GangScheduler::GangScheduler(const SchedulerOptions& options)
    : options_(options),
      busy_(static_cast<std::size_t>(options.ranks), false),
      generations_(static_cast<std::size_t>(options.ranks), 0),
      environments_(static_cast<std::size_t>(options.ranks)) {}

void GangScheduler::add(PlannedCell planned, int attempt) {
  if (planned.ranks > options_.ranks) {
    throw InternalError(fmt::format("cell {} needs {} ranks of {}", planned.name.id, planned.ranks,
                                    options_.ranks));
  }
  waiting_.push_back({std::move(planned), attempt});
}

std::vector<PlannedCell> GangScheduler::take_waiting() {
  std::vector<PlannedCell> taken;
  std::deque<WaitingCell> kept;
  for (WaitingCell& cell : waiting_) {
    if (cell.attempt > 1) {
      kept.push_back(std::move(cell));
    } else {
      taken.push_back(std::move(cell.planned));
    }
  }
  waiting_ = std::move(kept);
  return taken;
}

void GangScheduler::dispatch() {
  while (start_one(Workers::of_its_environment) || start_one(Workers::any)) {
  }
}

bool GangScheduler::start_one(Workers workers) {
  for (auto cell = waiting_.begin(); cell != waiting_.end(); ++cell) {
    const std::vector<int> ranks = find_ranks(*cell, workers);
    if (!ranks.empty()) {
      for (auto before = waiting_.begin(); before != cell; ++before) ++before->overtaken;
      WaitingCell chosen = std::move(*cell);
      waiting_.erase(cell);
      start(std::move(chosen), ranks);
      return true;
    }
    // The ranks drain until a cell that was overtaken often enough fits.
    if (cell->overtaken >= options_.most_overtakings) return false;
  }
  return false;
}

std::vector<int> GangScheduler::find_ranks(const WaitingCell& cell, Workers workers) const {
  const bool exclusive_runs = std::any_of(running_.begin(), running_.end(), [](const auto& other) {
    return other.cell.planned.exclusive;
  });
  if (exclusive_runs || (cell.planned.exclusive && !running_.empty())) return {};
  const auto will_do = [&](const std::vector<int>& found) {
    return workers == Workers::any || have_environment(found, cell.planned.environment);
  };
  const int count = cell.planned.ranks;
  std::vector<int> ranks(static_cast<std::size_t>(count));
  for (int first = 0; first + count <= options_.ranks; first += count) {
    if (!block_is_free(first, count)) continue;
    std::iota(ranks.begin(), ranks.end(), first);
    if (will_do(ranks)) return ranks;
  }
  ranks.clear();
  // No aligned block: any free ranks do, so that odd sizes do not starve.
  for (int rank = 0; rank < options_.ranks && std::ssize(ranks) < count; ++rank) {
    if (!busy_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  }
  if (std::ssize(ranks) < count || !will_do(ranks)) ranks.clear();
  return ranks;
}

bool GangScheduler::have_environment(const std::vector<int>& ranks,
                                     const matrix::ProcessEnvironment& environment) const {
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return environments_[static_cast<std::size_t>(rank)] == environment;
  });
}

bool GangScheduler::block_is_free(int first, int count) const {
  const auto begin = busy_.begin() + first;
  return std::none_of(begin, begin + count, [](bool busy) { return busy; });
}

void GangScheduler::start(WaitingCell cell, const std::vector<int>& ranks) {
  RunningCell running;
  running.id = next_assignment_++;
  running.world_ranks = ranks;
  running.reports.resize(ranks.size());
  running.fresh = cell.planned.fresh || options_.always_fresh || cell.attempt > 1;
  running.started = Clock::now();
  bool new_gang = true;
  const Gang& gang = gang_for(ranks, cell.planned.environment, running.fresh, new_gang);
  running.gang = gang.id;

  Assignment assignment;
  assignment.id = running.id;
  assignment.gang = gang.id;
  assignment.new_gang = new_gang;
  assignment.fresh = running.fresh;
  assignment.world_ranks = ranks;
  assignment.name = cell.planned.name;
  assignment.cell = cell.planned.cell;
  assignment.seed = cell.planned.seed.value_or(options_.seed);
  assignment.device = options_.device;
  assignment.sabotage = cell.planned.sabotage;
  assignment.checks = options_.checks;
  assignment.mock = cell.planned.mock;
  assignment.mishap = cell.planned.mishap;
  assignment.scenario = cell.planned.scenario;
  assignment.deadline_scale = cell.planned.deadline_scale;
  assignment.guard_pages =
      cell.planned.guard_pages.empty() ? options_.guard_pages : cell.planned.guard_pages;
  assignment.gpus_shared = options_.gpus_shared;
  // All ranks of the gang have to do the same, also where one alone has the fault.
  assignment.shares_legs = options_.share_legs && cell.planned.faults.empty() &&
                           cell.planned.sabotage.empty() && cell.planned.mishap.empty();
  assignment.communicator_timeout_milliseconds = options_.communicator_timeout_milliseconds;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    busy_[static_cast<std::size_t>(ranks[i])] = true;
    environments_[static_cast<std::size_t>(ranks[i])] = cell.planned.environment;
    assignment.rank = static_cast<int>(i);
    assignment.environment = worker_environment(ranks[i], cell.planned.environment);
    if (!options_.gpus.empty())
      assignment.gpu = options_.gpus.at(static_cast<std::size_t>(ranks[i]));
    const bool faulty = cell.planned.fault_rank < 0 || cell.planned.fault_rank == assignment.rank;
    assignment.faults = faulty ? cell.planned.faults : std::vector<std::string>{};
    assignment.worker_generation = new_gang ? 0 : gang.generations[i];
    messages_.push_back({ranks[i], assignment});
  }
  running.cell = std::move(cell);
  running_.push_back(std::move(running));
}

matrix::ProcessEnvironment GangScheduler::worker_environment(
    int rank, const matrix::ProcessEnvironment& of_cell) const {
  if (options_.rank_environments.empty()) return of_cell;
  matrix::ProcessEnvironment merged = options_.rank_environments.at(static_cast<std::size_t>(rank));
  merged.insert(of_cell.begin(), of_cell.end());
  return merged;
}

GangScheduler::Gang& GangScheduler::gang_for(const std::vector<int>& ranks,
                                             const matrix::ProcessEnvironment& environment,
                                             bool fresh, bool& is_new) {
  const bool replaced = fresh || !have_environment(ranks, environment);
  for (auto& [id, gang] : gangs_) {
    if (!replaced && gang.world_ranks == ranks && !gang.generations.empty()) {
      is_new = false;
      return gang;
    }
  }
  if (replaced) {
    // Their workers may be replaced, and with them what other gangs share.
    for (const int rank : ranks) retire_gangs_of(rank);
  }
  for (const int rank : ranks) {
    const std::vector<std::uint64_t> gangs = gangs_of(rank);
    if (gangs.size() >= most_gangs_of_a_rank) retire(gangs.front());
  }
  is_new = true;
  Gang& gang = gangs_[next_gang_];
  gang.id = next_gang_++;
  gang.world_ranks = ranks;
  return gang;
}

void GangScheduler::retire(std::uint64_t gang) {
  const auto found = gangs_.find(gang);
  if (found == gangs_.end()) return;
  for (const int rank : found->second.world_ranks) messages_.push_back({rank, RetireGang{gang}});
  gangs_.erase(found);
}

std::vector<std::uint64_t> GangScheduler::gangs_of(int rank) const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, gang] : gangs_) {
    const auto& members = gang.world_ranks;
    if (std::find(members.begin(), members.end(), rank) != members.end()) ids.push_back(id);
  }
  return ids;
}

void GangScheduler::retire_gangs_of(int rank) {
  for (const std::uint64_t id : gangs_of(rank)) {
    const bool in_use = std::any_of(running_.begin(), running_.end(),
                                    [&](const RunningCell& cell) { return cell.gang == id; });
    if (in_use) {
      gangs_.at(id).broken = true;
    } else {
      retire(id);
    }
  }
}

GangScheduler::RunningCell* GangScheduler::running_by_id(std::uint64_t id) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const RunningCell& cell) { return cell.id == id; });
  return found == running_.end() ? nullptr : &*found;
}

void GangScheduler::on_report(int rank, const CellReport& report) {
  RunningCell* cell = running_by_id(report.assignment);
  if (cell == nullptr) {
    throw InternalError(
        fmt::format("rank {} reported attempt {}, which does not run", rank, report.assignment));
  }
  const auto member = std::find(cell->world_ranks.begin(), cell->world_ranks.end(), rank);
  const auto place = static_cast<std::size_t>(member - cell->world_ranks.begin());
  if (member == cell->world_ranks.end() || cell->reports[place]) {
    throw InternalError(fmt::format("rank {} reported attempt {} without being asked, or twice",
                                    rank, report.assignment));
  }
  generations_[static_cast<std::size_t>(rank)] = report.worker_generation;
  cell->reports[place] = report.report;
  if (report.report.abnormal_end) {
    stop_others(*cell, rank, report.report.abnormal_end->verdict == suites::Verdict::hang);
  }
  finish_if_complete(*cell);
}

void GangScheduler::on_stale(int rank, const StaleAssignment& stale) {
  RunningCell* cell = running_by_id(stale.assignment);
  if (cell == nullptr) return;
  generations_[static_cast<std::size_t>(rank)] = stale.worker_generation;
  const auto member = std::find(cell->world_ranks.begin(), cell->world_ranks.end(), rank);
  const auto place = static_cast<std::size_t>(member - cell->world_ranks.begin());
  cell->stale = true;
  RankReport report;
  report.rank = static_cast<int>(place);
  report.world_rank = rank;
  report.abnormal_end = suites::AbnormalEnd{.phase = "idle"};
  cell->reports[place] = std::move(report);
  stop_others(*cell, rank, false);
  finish_if_complete(*cell);
}

void GangScheduler::on_worker_lost(int rank, const WorkerLost& lost) {
  generations_[static_cast<std::size_t>(rank)] = lost.worker_generation;
  retire_gangs_of(rank);
}

void GangScheduler::stop_others(RunningCell& cell, int except, bool hang) {
  if (cell.stopping) return;
  cell.stopping = true;
  for (const int rank : cell.world_ranks) {
    if (rank != except) messages_.push_back({rank, StopAssignment{cell.id, hang}});
  }
}

void GangScheduler::finish_if_complete(RunningCell& cell) {
  const bool complete = std::all_of(cell.reports.begin(), cell.reports.end(),
                                    [](const auto& report) { return report.has_value(); });
  if (!complete) return;
  // A failure may have left anything behind, on any rank of the gang.
  const bool failed = std::any_of(cell.reports.begin(), cell.reports.end(), [](const auto& report) {
    return speaks_against_worker(*report);
  });
  if (failed) stop_others(cell, -1, false);
  for (const int rank : cell.world_ranks) busy_[static_cast<std::size_t>(rank)] = false;
  const std::uint64_t id = cell.id;
  const std::uint64_t gang_id = cell.gang;
  if (cell.stale && cell.cell.stale_returns < most_stale_returns) {
    ++cell.cell.stale_returns;
    waiting_.push_front(cell.cell);
  } else {
    FinishedAttempt finished;
    finished.planned = std::move(cell.cell.planned);
    finished.attempt = cell.cell.attempt;
    finished.fresh = cell.fresh;
    finished.world_ranks = cell.world_ranks;
    for (auto& report : cell.reports) finished.reports.push_back(std::move(*report));
    finished.started = cell.started;
    finished.seconds = std::chrono::duration<double>(Clock::now() - cell.started).count();
    finished_.push_back(std::move(finished));
  }
  const bool broken = cell.stopping;
  const std::vector<int> ranks = cell.world_ranks;
  running_.remove_if([&](const RunningCell& other) { return other.id == id; });
  if (broken) {
    for (const int rank : ranks) retire_gangs_of(rank);
    return;
  }
  // The workers that ran the cell hold the gang's communicator from now on.
  const auto gang = gangs_.find(gang_id);
  if (gang == gangs_.end()) return;
  if (gang->second.broken) {
    retire(gang_id);
    return;
  }
  gang->second.generations.clear();
  for (const int rank : ranks) {
    gang->second.generations.push_back(generations_[static_cast<std::size_t>(rank)]);
  }
}

void GangScheduler::on_store_set(const StoreSet& set) {
  const auto found = gangs_.find(set.gang);
  if (found == gangs_.end()) return;
  Gang& gang = found->second;
  gang.store[set.key] = set.value;
  const auto [first, last] = gang.waiting.equal_range(set.key);
  for (auto waiter = first; waiter != last; ++waiter) {
    messages_.push_back({waiter->second, StoreValue{set.gang, set.key, set.value}});
  }
  gang.waiting.erase(first, last);
}

void GangScheduler::on_store_get(int rank, const StoreGet& get) {
  const auto found = gangs_.find(get.gang);
  if (found == gangs_.end()) return;
  Gang& gang = found->second;
  const auto value = gang.store.find(get.key);
  if (value == gang.store.end()) {
    gang.waiting.emplace(get.key, rank);
  } else {
    messages_.push_back({rank, StoreValue{get.gang, get.key, value->second}});
  }
}

std::vector<Outgoing> GangScheduler::take_messages() {
  return std::exchange(messages_, {});
}

std::vector<FinishedAttempt> GangScheduler::take_finished() {
  return std::exchange(finished_, {});
}

std::optional<GangScheduler::Clock::time_point> GangScheduler::oldest_start() const {
  if (running_.empty()) return std::nullopt;
  return running_.front().started;
}

std::vector<int> GangScheduler::silent_ranks() const {
  std::vector<int> ranks;
  if (running_.empty()) return ranks;
  const RunningCell& oldest = running_.front();
  for (std::size_t i = 0; i < oldest.reports.size(); ++i) {
    if (!oldest.reports[i]) ranks.push_back(oldest.world_ranks[i]);
  }
  return ranks;
}

}  // namespace cgconform::harness
