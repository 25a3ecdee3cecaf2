#include "harness/worker/worker_loop.hpp"

#include <utility>
#include <variant>

#include "harness/mock_cell.hpp"
#include "harness/worker/mock_execution.hpp"
#include "workloads/device/progress.hpp"

namespace cgconform::harness {

int run_worker(WorkerLink& link, ProgressBoard& board, CellExecutor& executor,
               const std::string& build) {
  MockProcess mock_process;
  link.send(WorkerReady{build});
  while (const auto message = link.receive()) {
    if (std::holds_alternative<Shutdown>(*message)) return 0;
    if (const auto* retire = std::get_if<RetireGang>(&*message)) {
      executor.retire_gang(retire->gang);
      continue;
    }
    const auto* assignment = std::get_if<Assignment>(&*message);
    if (assignment == nullptr) continue;
    suites::RankReport report = assignment->mock.empty()
                                    ? executor.execute(*assignment)
                                    : run_mock_cell(*assignment, mock_from_text(assignment->mock),
                                                    link, board, mock_process);
    board.enter_phase(workloads::Phase::idle);
    link.send(CellReport{assignment->id, std::move(report), 0});
  }
  return 0;
}

}  // namespace cgconform::harness
