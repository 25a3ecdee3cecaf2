#pragma once

#include <optional>

namespace cgconform::harness {

/// This process's rank in the MPI job that a launcher (mpirun, srun) started, from the variables
/// launchers set; empty where it was started by itself.
std::optional<int> launcher_rank();

/// This process's place among the job's processes on its host, as launchers say it; empty where
/// none does.
std::optional<int> launcher_local_rank();

/// Throws EnvironmentError where the launcher started another number of processes than MPI has
/// ranks: each would take itself for the only one.
void refuse_launcher_of_another_mpi(int ranks_in_mpi);

/// Throws EnvironmentError where a launcher started several processes without telling them how to
/// speak MPI: each would take itself for the only one.
void refuse_ranks_without_mpi();

}  // namespace cgconform::harness
