#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "harness/protocol.hpp"
#include "harness/run_options.hpp"

namespace cgconform::harness {

/// This rank's introduction: binary hashes, options and relevant variables, which have to agree,
/// and its environment.
Hello introduce_rank(int world_rank, const RunOptions& options,
                     const std::filesystem::path& worker_program);

/// Throws the first rank's own trouble, or EnvironmentError naming the rank that differs from rank
/// 0, in what, and both values.
void require_agreement(std::span<const Hello> ranks);

}  // namespace cgconform::harness
