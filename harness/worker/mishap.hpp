#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "harness/mock_cell.hpp"
#include "harness/progress_board.hpp"
#include "workloads/device/progress.hpp"

namespace cgconform::harness {

/// Passes a workload's progress on to the board, and lets a mishap happen on the way: the behaviour
/// of a mock cell in the midst of a true one. What dies, dies at an op of the phase, wherever the
/// device executes it; what throws, throws where the workload enters the phase.
class MishapSink final : public workloads::ProgressSink {
 public:
  explicit MishapSink(workloads::ProgressSink& board) : board_(board) {}

  /// The next cell's mishap; empty for none. Only while nothing is in flight.
  void arm(std::optional<MockCell> mishap);

  void enter_phase(workloads::Phase phase) override;
  void start_operation(std::string_view label) override;

 private:
  workloads::ProgressSink& board_;
  std::optional<MockCell> mishap_;
  std::atomic<bool> in_phase_{false};
  std::atomic<int> operations_{0};
};

/// The mishap that `text` describes where it strikes this rank of the gang; empty elsewhere, and
/// for an empty text. Throws InputError.
std::optional<MockCell> mishap_for(const std::string& text, int rank);

}  // namespace cgconform::harness
