#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/planned_cell.hpp"
#include "harness/protocol.hpp"

namespace cgconform::harness {

/// A message to the supervisor of a rank.
struct Outgoing {
  int rank = 0;
  Message message;
};

/// A cell with every rank's report of one attempt.
struct FinishedAttempt {
  PlannedCell planned;
  int attempt = 1;
  bool fresh = false;
  std::vector<int> world_ranks;
  std::vector<suites::RankReport> reports;        ///< in gang rank order
  std::chrono::steady_clock::time_point started;  ///< when it was given to its ranks
  double seconds = 0.0;
};

struct SchedulerOptions {
  int ranks = 1;
  std::uint64_t seed = 0;
  std::string device = "reference";
  std::vector<std::string> checks;
  bool always_fresh = false;
  bool share_legs = true;  ///< where a cell has no fault, sabotage or mishap
  std::string guard_pages = "off";
  std::vector<int> gpus;     ///< each rank's, of those it sees; empty without GPUs
  bool gpus_shared = false;  ///< ranks of the run share GPUs
  /// Variables that each rank's workers have beside those of cells; empty for none.
  std::vector<matrix::ProcessEnvironment> rank_environments;
  std::int64_t communicator_timeout_milliseconds = 30000;
  /// A smaller cell may start before a larger one that waits for ranks, this often.
  int most_overtakings = 64;
};

/// Decides which cells run on which ranks. Cells run side by side on disjoint gangs: aligned blocks
/// of neighbouring ranks, so that a gang stays on one host where it fits and meets again with its
/// communicator. Within the window, cells whose process environment the workers already have come
/// first. Knows nothing of processes or MPI: messages go in and out.
class GangScheduler {
 public:
  using Clock = std::chrono::steady_clock;
  /// Cells looked at to find one that fits.
  static constexpr std::size_t window = 32;

  explicit GangScheduler(const SchedulerOptions& options);

  bool wants_cells() const { return waiting_.size() < window; }
  void add(PlannedCell planned, int attempt);

  /// Takes back the cells that wait for their first attempt.
  std::vector<PlannedCell> take_waiting();

  /// Starts what fits on the free ranks.
  void dispatch();
  void on_report(int rank, const CellReport& report);
  void on_stale(int rank, const StaleAssignment& stale);
  void on_worker_lost(int rank, const WorkerLost& lost);
  void on_store_set(const StoreSet& set);
  void on_store_get(int rank, const StoreGet& get);

  std::vector<Outgoing> take_messages();
  std::vector<FinishedAttempt> take_finished();

  bool idle() const { return waiting_.empty() && running_.empty(); }
  std::size_t running() const { return running_.size(); }
  /// When the attempt that runs longest began.
  std::optional<Clock::time_point> oldest_start() const;
  /// Ranks that have not reported the attempt that runs longest, for messages.
  std::vector<int> silent_ranks() const;

 private:
  struct WaitingCell {
    PlannedCell planned;
    int attempt = 1;
    int overtaken = 0;
    int stale_returns = 0;
  };
  struct Gang {
    std::uint64_t id = 0;
    std::vector<int> world_ranks;
    std::vector<std::uint64_t> generations;  ///< empty until a cell has run on it
    bool broken = false;                     ///< a worker was lost while a cell ran on it
    std::map<std::string, std::string> store;
    std::multimap<std::string, int> waiting;  ///< ranks that asked for a key not there yet
  };
  struct RunningCell {
    std::uint64_t id = 0;
    WaitingCell cell;
    std::vector<int> world_ranks;
    std::vector<std::optional<suites::RankReport>> reports;
    std::uint64_t gang = 0;
    bool fresh = false;
    bool stopping = false;
    bool stale = false;
    Clock::time_point started;
  };

  enum class Workers : std::uint8_t { of_its_environment, any };

  /// Starts the first waiting cell that finds such workers.
  bool start_one(Workers workers);
  std::vector<int> find_ranks(const WaitingCell& cell, Workers workers) const;
  bool block_is_free(int first, int count) const;
  bool have_environment(const std::vector<int>& ranks,
                        const matrix::ProcessEnvironment& environment) const;
  void start(WaitingCell cell, const std::vector<int>& ranks);
  /// The variables of a cell and those that the rank's workers have anyway.
  matrix::ProcessEnvironment worker_environment(int rank,
                                                const matrix::ProcessEnvironment& of_cell) const;
  Gang& gang_for(const std::vector<int>& ranks, const matrix::ProcessEnvironment& environment,
                 bool fresh, bool& is_new);
  void retire(std::uint64_t gang);
  std::vector<std::uint64_t> gangs_of(int rank) const;
  void retire_gangs_of(int rank);
  RunningCell* running_by_id(std::uint64_t id);
  void stop_others(RunningCell& cell, int except, bool hang);
  void finish_if_complete(RunningCell& cell);

  SchedulerOptions options_;
  std::deque<WaitingCell> waiting_;
  std::list<RunningCell> running_;
  std::map<std::uint64_t, Gang> gangs_;
  std::vector<bool> busy_;
  std::vector<std::uint64_t> generations_;                ///< of each rank's worker, as last heard
  std::vector<matrix::ProcessEnvironment> environments_;  ///< of each rank's worker
  std::uint64_t next_assignment_ = 1;
  std::uint64_t next_gang_ = 1;
  std::vector<Outgoing> messages_;
  std::vector<FinishedAttempt> finished_;
};

}  // namespace cgconform::harness
