#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/exit_codes.hpp"
#include "harness/gang_scheduler.hpp"
#include "harness/gpu_sharing.hpp"
#include "harness/journal.hpp"
#include "harness/planned_cell.hpp"
#include "harness/run_limits.hpp"
#include "harness/run_options.hpp"
#include "harness/transport.hpp"
#include "reports/report_writer.hpp"

namespace cgconform::harness {

/// What a run consists of, once its device is known.
struct RunPlan {
  std::unique_ptr<CellSource> source;
  std::string matrix_name;
  std::string matrix_hash;
  double deadline_scale = 1.0;  ///< multiplies the run's own
  /// The exit code of the run's summary; by default `exit_code_of`.
  std::function<ExitCode(const reports::RunSummary&)> judge;
  /// What a final result means to the run; by default itself.
  std::function<suites::CellResult(suites::CellResult)> conclude;
  /// A report beside the others, written last; none by default.
  std::function<std::unique_ptr<reports::ReportWriter>(const std::filesystem::path&)> report;
  /// The line that repeats a cell; by default `reproducer_line`.
  std::function<std::string(const PlannedCell&)> reproducer;
};

/// What a run is planned for, known once the ranks have introduced themselves.
struct RunTarget {
  std::string device;
  int ranks = 1;
  bool gpus_shared = false;  ///< of the ranks, two use one GPU
};

/// Makes the plan of a run, on rank 0.
class Planner {
 public:
  virtual ~Planner() = default;
  /// Finds what is wrong with the input before anything else is asked for. Throws InputError.
  virtual void check_input() = 0;
  /// Throws InputError where so many ranks are too few for every cell.
  virtual RunPlan plan(const RunTarget& target) = 0;
};

/// Rank 0's part of a run: hears the ranks, plans, has cells run, journals and reports verdicts,
/// and ends all ranks with one exit code.
class Coordinator {
 public:
  /// The planner and the transport must outlive it.
  Coordinator(RunOptions options, Planner& planner, Transport& transport);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  Coordinator(Coordinator&&) = delete;
  Coordinator& operator=(Coordinator&&) = delete;

  void handle(int source, const Message& message);
  /// Moves the run on. Throws InternalError where a rank no longer answers.
  void tick();
  /// Ends the run early; `signal` was caught by this process.
  void interrupt(int signal);
  bool is_finished() const { return stage_ == Stage::ended; }
  bool is_running() const { return stage_ == Stage::running; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage : std::uint8_t { greeting, starting, running, stopping, ended };

  /// Calls `action`; an Error in it ends the run with its exit code and one message.
  void guarded(const std::function<void()>& action);
  void plan_run();
  JournalHeader journal_header() const;
  /// Opens the journal of the run to go on with; false where nothing is left to run.
  bool take_up_run();
  void open_reports(RunPlan& plan);
  void run_on();
  void stop_where_limited();
  void skip(const PlannedCell& planned);
  void pull_cells();
  /// Gives a cell to the scheduler, or reports what the journal has of it already.
  void add_cell(PlannedCell planned);
  void feed_retries();
  void attempt_finished(const FinishedAttempt& attempt);
  void emit(const suites::CellResult& result);
  void send_scheduled();
  void watch_silence() const;
  void finish(std::optional<ExitCode> forced);
  void shut_down(ExitCode code);
  void refuse(ExitCode code, const std::string& message);
  reports::RunInfo run_info(const RunPlan& plan) const;
  int world() const { return transport_.size(); }

  RunOptions options_;
  Planner& planner_;
  Transport& transport_;
  Stage stage_ = Stage::greeting;
  Clock::time_point stage_since_ = Clock::now();
  std::vector<Hello> hellos_;
  std::vector<bool> greeted_;
  int begun_ = 0;
  int goodbyes_ = 0;

  RunPlan plan_;
  std::string device_;
  GpuSharing sharing_;
  bool source_exhausted_ = false;
  RunLimits limits_;
  std::string stop_reason_;  ///< why no further cell is started; empty while cells are
  std::optional<GangScheduler> scheduler_;
  std::map<AttemptKey, suites::CellResult> first_attempts_;
  std::vector<PlannedCell> retries_;
  std::size_t next_retry_ = 0;
  std::optional<Journal> journal_;
  std::map<AttemptKey, CellHistory> histories_;  ///< of the resumed run's cells
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<reports::ReportWriter>> writers_;
  std::optional<reports::SummaryCollector> summary_;
  std::vector<double> attempt_milliseconds_;  ///< kept where overhead is measured
  Clock::time_point started_ = Clock::now();
};

}  // namespace cgconform::harness
