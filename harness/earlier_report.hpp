#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/journal.hpp"

namespace cgconform::harness {

/// What the run that reads an earlier report is about.
struct RunIdentity {
  std::string matrix;
  std::string matrix_hash;
  std::uint64_t seed = 0;
};

/// The ids of the cells that failed in the run of a report folder, each once: those whose last
/// verdict is bad or speaks of the environment, and those with a failed first attempt and no
/// second. Throws InputError that begins with `--rerun-failed` where the folder holds no readable
/// journal, where its run was of another matrix or seed, or where no cell failed.
std::vector<std::string> failed_cells(const std::filesystem::path& folder, const RunIdentity& run);

}  // namespace cgconform::harness
