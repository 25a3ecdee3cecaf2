#pragma once

#include <filesystem>

#include "harness/coordinator.hpp"
#include "harness/run_options.hpp"
#include "harness/system_error.hpp"
#include "harness/transport.hpp"

namespace cgconform::harness {

/// Nobody is left whom MPI could tell of this rank's end.
class LauncherGone : public EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

/// Runs this rank's part of a run to its end and returns the exit code that all ranks agreed on.
/// `introduction` goes to rank 0. Throws where agreement is lost: the caller then has to end all
/// ranks.
int run_rank(const Hello& introduction, const RunOptions& options, Planner& planner,
             Transport& transport, const std::filesystem::path& worker_program);

/// Blocks the signals that a run reads from a descriptor. Before any thread is started.
void block_run_signals();

}  // namespace cgconform::harness
