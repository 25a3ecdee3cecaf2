#pragma once

#include "harness/mock_cell.hpp"
#include "harness/progress_board.hpp"
#include "harness/protocol.hpp"
#include "harness/worker/worker_link.hpp"

namespace cgconform::harness {

/// What mock cells leave behind in their process.
struct MockProcess {
  bool spoilt = false;
};

/// Runs a mock cell.
suites::RankReport run_mock_cell(const Assignment& assignment, const MockCell& mock,
                                 WorkerLink& link, ProgressBoard& board, MockProcess& process);

}  // namespace cgconform::harness
