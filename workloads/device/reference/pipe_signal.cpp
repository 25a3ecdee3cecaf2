#include "workloads/device/reference/pipe_signal.hpp"

#include <ctime>

namespace cgconform::workloads::reference {
namespace {

sigset_t pipe_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

PipeSignalBlock::PipeSignalBlock() : former_() {
  const sigset_t set = pipe_signal();
  pthread_sigmask(SIG_BLOCK, &set, &former_);
}

PipeSignalBlock::~PipeSignalBlock() {
  if (sigismember(&former_, SIGPIPE) == 1) return;
  // A signal raised meanwhile waits for this thread alone; it is taken before the mask is restored.
  const sigset_t set = pipe_signal();
  const timespec at_once{};
  sigtimedwait(&set, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

}  // namespace cgconform::workloads::reference
