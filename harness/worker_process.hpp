#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "harness/control_channel.hpp"
#include "harness/crash_handler.hpp"
#include "harness/crash_record.hpp"
#include "harness/progress_board.hpp"
#include "matrix/cell_environment.hpp"

namespace cgconform::harness {

/// Descriptors that a worker finds open when it starts, beside its standard streams.
constexpr int worker_channel_descriptor = 3;
constexpr int worker_board_descriptor = 4;

struct WorkerOptions {
  std::filesystem::path program;
  std::filesystem::path log_file;  ///< output is appended to it; empty for the supervisor's stderr
  std::vector<std::string> wrapper;  ///< words of a program that runs the worker; may be empty
  matrix::ProcessEnvironment environment;  ///< variables beyond, or in place of, this process's
};

/// A running cgconform-worker: its own session and process group, without the launcher's variables,
/// with no descriptor but its channel and board.
class WorkerProcess {
 public:
  /// Throws EnvironmentError where it cannot be started.
  explicit WorkerProcess(const WorkerOptions& options);
  /// KILLs whatever is left of it.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  WorkerProcess(WorkerProcess&&) = delete;
  WorkerProcess& operator=(WorkerProcess&&) = delete;

  pid_t pid() const { return pid_; }
  ControlChannel& channel() { return channel_; }
  BoardLayout& board() const { return board_.layout(); }

  /// Asks every thread for its stack; returns how many were asked.
  std::size_t request_stacks() const;
  void terminate() const;

  /// How the process ended; empty while it runs. The first answer also KILLs what is left of its
  /// group and session, before its number can be given to another process.
  std::optional<ProcessEnd> poll_end();
  /// Waits for the end, then KILLs.
  ProcessEnd await_end(std::chrono::milliseconds grace);

 private:
  ControlChannel channel_;
  BoardMapping board_;
  pid_t pid_ = -1;
  std::optional<ProcessEnd> end_;
};

}  // namespace cgconform::harness
