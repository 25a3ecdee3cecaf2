#pragma once

#include <vector>

#include <sys/types.h>

namespace cgconform::harness {

/// Processes that a worker left behind in sessions of their own. This process becomes the parent of
/// its descendants' orphans, so that they can be found. One object a process.
class StrayProcesses {
 public:
  /// Children that there are already are none of a worker's.
  StrayProcesses();

  /// KILLs every stray but `worker` and what it may have left in turn; -1 for no worker.
  void end(pid_t worker) const;

 private:
  std::vector<pid_t> others_;
};

}  // namespace cgconform::harness
