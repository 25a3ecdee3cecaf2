#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "harness/deadlines.hpp"
#include "harness/protocol.hpp"
#include "harness/stray_processes.hpp"
#include "harness/worker_process.hpp"

namespace cgconform::harness {

/// Where a supervisor sends what concerns the whole run.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual void send(const Message& message) = 0;
};

struct SupervisorOptions {
  int world_rank = 0;
  std::string host;
  std::filesystem::path worker_program;
  std::string worker_build;  ///< that a worker has to introduce itself with
};

/// Looks after the worker of one rank: gives it assignments, passes its messages on, watches its
/// deadlines, and finds out how it ended. Never waits, but for a worker to die after a KILL.
class Supervisor {
 public:
  Supervisor(SupervisorOptions options, MessageSink& scheduler);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  Supervisor(Supervisor&&) = delete;
  Supervisor& operator=(Supervisor&&) = delete;

  /// A message from the scheduler. Returns false for one that is not for a supervisor.
  bool handle(const Message& message);
  /// Reads the worker's messages and looks at its deadlines.
  void tick();

  /// To be watched for input; -1 without a worker.
  int worker_descriptor() const;
  bool is_running_a_cell() const { return assignment_.has_value(); }
  /// True after Shutdown, once the worker is gone.
  bool is_finished() const { return finished_; }
  int exit_code() const { return exit_code_; }
  /// The worker's process, for tests; -1 without one.
  pid_t worker_pid() const { return worker_ ? worker_->pid() : -1; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Ending : std::uint8_t { none, stacks, terminating, wrapper_report };

  void begin(const Begin& begin);
  void assign(const Assignment& assignment);
  void stop(const StopAssignment& stop);
  void shut_down(int exit_code);

  void start_worker();
  /// Ends a worker that has nothing to do, in good order where it can, and starts the next.
  void replace_idle_worker();
  void read_worker();
  void handle_worker_message(const Message& message);
  void handle_cell_report(const CellReport& report);
  void worker_is_gone();
  void watch_deadlines();
  void begin_ending(bool hang);
  void move_ending_on();
  void report_misbehaviour(const std::string& what);
  void report_end(suites::AbnormalEnd end);
  void send_report(suites::RankReport report);
  /// Adds what the wrapper of the worker that has ended says.
  void add_wrapper_report(suites::RankReport& report) const;
  suites::RankReport empty_report() const;

  SupervisorOptions options_;
  MessageSink& scheduler_;
  Deadlines deadlines_;
  StrayProcesses strays_;
  std::filesystem::path log_file_;
  std::string wrap_;                        ///< tool of compute-sanitizer; empty for none
  std::filesystem::path wrapper_log_;       ///< of the present worker
  std::optional<suites::RankReport> held_;  ///< complete but for the wrapper's report
  std::unique_ptr<WorkerProcess> worker_;
  matrix::ProcessEnvironment environment_;  ///< of workers, beyond this process's own
  std::uint64_t generation_ = 0;
  bool worker_ready_ = false;
  bool begun_ = false;  ///< the first worker's start was reported
  bool pristine_ = true;
  int failed_starts_ = 0;  ///< in a row
  Clock::time_point worker_started_;

  std::optional<Assignment> assignment_;
  Deadlines cell_deadlines_;  ///< of the assignment
  Clock::time_point assigned_;
  std::chrono::nanoseconds assigned_monotonic_{0};
  Ending ending_ = Ending::none;
  bool ending_is_hang_ = false;
  bool ended_by_peer_ = false;
  std::size_t stacks_asked_ = 0;
  Clock::time_point ending_since_;

  bool finished_ = false;
  int exit_code_ = 0;
};

}  // namespace cgconform::harness
