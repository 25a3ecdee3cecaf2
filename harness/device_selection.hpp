#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/gpu_sharing.hpp"
#include "harness/protocol.hpp"
#include "harness/run_options.hpp"

namespace cgconform::harness {

/// Fact of a rank's Hello: "yes" where it sees an NVIDIA device.
constexpr const char* nvidia_device_fact = "nvidia_device";

/// Facts of a rank's Hello about the GPU that its worker is to use; absent where none answered.
constexpr const char* gpu_id_fact = "gpu_id";
constexpr const char* gpu_ordinal_fact = "gpu_ordinal";

/// Names of devices, as in assignments and reports.
constexpr const char* reference_device_name = "reference";
constexpr const char* cuda_device_name = "cuda";

/// The device of the run. `auto` takes `reference` for the matrix `smoke` only (and for mock
/// cells), and only where no rank sees an NVIDIA device: a dead driver must not look green. Throws
/// EnvironmentError naming the rank.
std::string select_device(const RunOptions& options, std::span<const Hello> ranks);

/// The GPU of each rank, from the ranks' facts. Throws EnvironmentError naming the first rank for
/// which none answered.
std::vector<RankGpu> gpus_of(std::span<const Hello> ranks);

}  // namespace cgconform::harness
