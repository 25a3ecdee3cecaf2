#include "harness/stray_processes.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/process_tree.hpp"

namespace cgconform::harness {
namespace {

/// Of orphans that come up when their parent ends.
constexpr int most_generations = 16;
constexpr std::chrono::milliseconds reap_deadline{500};
constexpr std::chrono::microseconds reap_step{200};

/// Waits for the end of a killed child; not for one that the kernel does not let go.
void reap(pid_t child) {
  const auto deadline = std::chrono::steady_clock::now() + reap_deadline;
  while (::waitpid(child, nullptr, WNOHANG) == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(reap_step);
  }
}

}  // namespace

StrayProcesses::StrayProcesses() : others_(children_of(::getpid())) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1UL);
}

void StrayProcesses::end(pid_t worker) const {
  for (int generation = 0; generation < most_generations; ++generation) {
    std::vector<pid_t> strays = children_of(::getpid());
    std::erase_if(strays, [&](pid_t process) {
      return process == worker ||
             std::find(others_.begin(), others_.end(), process) != others_.end();
    });
    if (strays.empty()) return;
    for (const pid_t stray : strays) {
      ::kill(stray, SIGKILL);
      kill_session(stray);
    }
    for (const pid_t stray : strays) reap(stray);
  }
}

}  // namespace cgconform::harness
