#include "harness/worker/lifeline.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

void watch(int channel, int stop) {
  std::array<pollfd, 2> entries{pollfd{channel, POLLRDHUP, 0}, pollfd{stop, POLLIN, 0}};
  while (true) {
    const int ready = ::poll(entries.data(), entries.size(), -1);
    if (ready < 0 && errno == EINTR) continue;
    if ((entries[1].revents & POLLIN) != 0) return;
    if ((entries[0].revents & POLLNVAL) != 0) return;
    if ((entries[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) ::kill(0, SIGKILL);
  }
}

}  // namespace

Lifeline::Lifeline(int channel_descriptor) : stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_.is_open()) throw_system_error("watching the control channel");
  // A second net, for a process whose threads do not run; it does not reach through a wrapper.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  watcher_ = std::thread(watch, channel_descriptor, stop_.get());
}

Lifeline::~Lifeline() {
  const std::uint64_t one = 1;
  if (::write(stop_.get(), &one, sizeof(one)) == sizeof(one)) {
    watcher_.join();
  } else {
    watcher_.detach();
  }
}

}  // namespace cgconform::harness
