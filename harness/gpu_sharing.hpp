#pragma once

#include <span>
#include <string>
#include <vector>

#include "matrix/cell_environment.hpp"

namespace cgconform::harness {

/// The GPU that a rank's worker uses. Schedulers hide and renumber devices, so that its id alone
/// says which one it is.
struct RankGpu {
  std::string host;
  std::string uuid;  ///< "GPU-..."; empty where none is known
};

/// What the ranks of a job do with each other's GPUs.
struct GpuSharing {
  bool shared = false;  ///< two ranks at least use one GPU
  std::string notice;   ///< what follows from it, for people; empty where none is shared
  /// Variables that each rank's worker needs before it calls NCCL; empty where none is shared.
  std::vector<matrix::ProcessEnvironment> environments;
};

/// Decided for all ranks of a job together: NCCL reads its variables once a process, and every
/// communicator of it has to use the same transport, whichever ranks it joins. NCCL refuses two
/// ranks of a host on one GPU as duplicates unless each names a host of its own; it then talks over
/// sockets.
GpuSharing decide_gpu_sharing(std::span<const RankGpu> ranks);

/// The rank's variables in place, for a process that has not called NCCL yet.
void apply_gpu_sharing(const GpuSharing& sharing, int rank);

}  // namespace cgconform::harness
