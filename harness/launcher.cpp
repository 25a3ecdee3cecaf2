#include "harness/launcher.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

constexpr std::array rank_variables{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
constexpr std::array local_rank_variables{"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                          "SLURM_LOCALID", "PALS_LOCAL_RANKID"};
constexpr std::array size_variables{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};

std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int number = 0;
  const auto parsed = std::from_chars(view.data(), view.data() + view.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != view.data() + view.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<int> launcher_rank() {
  for (const char* variable : rank_variables) {
    if (const auto rank = number_in(variable)) return rank;
  }
  return std::nullopt;
}

std::optional<int> launcher_local_rank() {
  for (const char* variable : local_rank_variables) {
    if (const auto rank = number_in(variable)) return rank;
  }
  return std::nullopt;
}

void refuse_launcher_of_another_mpi(int ranks_in_mpi) {
  for (const char* variable : size_variables) {
    const auto started = number_in(variable);
    if (!started || *started == ranks_in_mpi) continue;
    throw EnvironmentError(
        fmt::format("the launcher started {} processes and MPI connects {}: it belongs to another "
                    "MPI than cgconform was built with; use the mpirun of that installation",
                    *started, ranks_in_mpi));
  }
}

void refuse_ranks_without_mpi() {
  const auto task = number_in("SLURM_PROCID");
  if (launcher_rank() || !task || *task == 0) return;
  throw EnvironmentError(
      fmt::format("task {} of a Slurm step was started without MPI; use srun --mpi=pmix, or mpirun "
                  "inside the allocation",
                  *task));
}

}  // namespace cgconform::harness
