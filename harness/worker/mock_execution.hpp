#pragma once

#include "harness/mock_cell.hpp"
#include "harness/progress_board.hpp"
#include "harness/protocol.hpp"
#include "harness/worker/worker_link.hpp"

namespace cgconform::harness {

/// Runs a mock cell; `cells_before` is how many this worker has run.
suites::RankReport run_mock_cell(const Assignment& assignment, const MockCell& mock,
                                 WorkerLink& link, ProgressBoard& board,
                                 std::uint64_t cells_before);

}  // namespace cgconform::harness
