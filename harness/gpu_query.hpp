#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace cgconform::harness {

/// A GPU by its place among those a process sees, and by its id.
struct GpuIdentity {
  int ordinal = 0;
  std::string uuid;
};

/// The GPU of the `local_rank`-th rank of a host. Asks the worker's program, in a process of its
/// own: a driver that hangs must not hang a rank. Empty where no GPU answers in time.
std::optional<GpuIdentity> ask_for_gpu(const std::filesystem::path& worker_program, int local_rank);

/// The local rank that a worker's command line asks about; empty where it asks nothing.
std::optional<int> asked_local_rank(std::span<char* const> command_line);
/// Prints the answer; the worker's side of `ask_for_gpu`. Returns the exit code.
int answer_gpu_query(int local_rank);

}  // namespace cgconform::harness
