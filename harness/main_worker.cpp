#include <cstddef>
#include <cstdio>
#include <exception>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/control_channel.hpp"
#include "harness/crash_handler.hpp"
#include "harness/fingerprint.hpp"
#include "harness/gpu_query.hpp"
#include "harness/progress_board.hpp"
#include "harness/worker/child_main.hpp"
#include "harness/worker/lifeline.hpp"
#include "harness/worker/training_executor.hpp"
#include "harness/worker/worker_link.hpp"
#include "harness/worker/worker_loop.hpp"
#include "harness/worker_process.hpp"
#include "workloads/device/host_memory.hpp"

int main(int argc, char** argv) {
  using namespace cgconform::harness;
  constexpr int no_supervisor = 2;
  try {
    if (const auto local_rank = asked_local_rank({argv, static_cast<std::size_t>(argc)})) {
      return answer_gpu_query(*local_rank);
    }
    if (const auto child = child_arguments({argv, static_cast<std::size_t>(argc)})) {
      return run_child_program(*child);
    }
    BoardMapping board_file{FileDescriptor(worker_board_descriptor)};
    board_file.layout().process = ::getpid();
    const CrashHandler crash_handler(board_file.layout());
    const Lifeline lifeline(worker_channel_descriptor);
    ControlChannel channel{FileDescriptor(worker_channel_descriptor)};
    ProgressBoard board(board_file.layout());
    cgconform::workloads::keep_freed_host_memory();
    WorkerLink link(channel);
    TrainingExecutor executor(link, board);
    return run_worker(link, board, executor, build_identity());
  } catch (const std::exception& error) {
    std::fputs(fmt::format("cgconform-worker: {} (cgconform starts it; it is of no use alone)\n",
                           error.what())
                   .c_str(),
               stderr);
    return no_supervisor;
  }
}
