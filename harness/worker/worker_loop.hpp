#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/progress_board.hpp"
#include "harness/protocol.hpp"
#include "harness/worker/worker_link.hpp"

namespace cgconform::harness {

/// Runs the cells of a matrix on a device that is kept from cell to cell.
class CellExecutor {
 public:
  virtual ~CellExecutor() = default;
  virtual suites::RankReport execute(const Assignment& assignment) = 0;
  virtual void retire_gang(std::uint64_t gang) = 0;
};

/// What a worker does from start to end: says that it is ready, runs assignments one after the
/// other, and returns the exit status when it is told to stop or its supervisor is gone.
int run_worker(WorkerLink& link, ProgressBoard& board, CellExecutor& executor,
               const std::string& build);

}  // namespace cgconform::harness
