#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "harness/progress_board.hpp"
#include "harness/worker/mishap.hpp"
#include "harness/worker/worker_link.hpp"
#include "harness/worker/worker_loop.hpp"
#include "suites/comparison.hpp"
#include "suites/shared_legs.hpp"
#include "workloads/device/device.hpp"
#include "workloads/lifecycle/communicator_keeper.hpp"

namespace cgconform::harness {

/// Runs cells of a matrix, and scenarios: owns the device and the communicators of its gangs, which
/// are kept from cell to cell.
class TrainingExecutor final : public CellExecutor {
 public:
  TrainingExecutor(WorkerLink& link, ProgressBoard& board)
      : link_(link), board_(board), progress_(board) {}

  suites::RankReport execute(const Assignment& assignment) override;
  void retire_gang(std::uint64_t gang) override;

 private:
  suites::RankReport run(const Assignment& assignment);
  suites::RankReport run_scenario(const Assignment& assignment);
  /// Makes the device that the assignment names, for the worker's life.
  void open_device(const Assignment& assignment);
  workloads::Device& device();
  /// Null for a gang of one.
  workloads::Communicator* communicator(const Assignment& assignment);
  workloads::CommunicatorOptions gang_options(const Assignment& assignment);

  WorkerLink& link_;
  ProgressBoard& board_;
  MishapSink progress_;  ///< what the workload tells of itself, on its way to the board
  std::unique_ptr<workloads::Device> device_;
  std::unique_ptr<suites::SharedLegs> shared_legs_;  ///< on the device
  std::unique_ptr<suites::TensorComparator> comparator_;
  std::shared_ptr<suites::ControlTensors> controls_;
  std::map<std::uint64_t, std::unique_ptr<workloads::Communicator>> gangs_;
  workloads::CommunicatorKeeper keeper_;
};

}  // namespace cgconform::harness
