#include "harness/rank_loop.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>
#include <utility>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "harness/fingerprint.hpp"
#include "harness/supervisor.hpp"
#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr seconds flush_deadline{10};
constexpr seconds launcher_check_interval{1};

/// The kernel sends it when the thread of the launcher ends that started this rank.
int launcher_signal() {
  return SIGRTMIN + 5;
}

sigset_t run_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, launcher_signal());
  return signals;
}

/// How long to wait for the worker between two looks at MPI: short while messages come, longer and
/// longer while none does. A blocking receive would burn a core.
class PollInterval {
 public:
  void activity() { current_ = shortest; }
  microseconds next(bool running) {
    const microseconds interval = std::min(current_, running ? longest_running : longest_idle);
    current_ = std::min(current_ + current_ / 2, longest_idle);
    return interval;
  }

 private:
  static constexpr microseconds shortest{20};
  static constexpr microseconds longest_running{1000};
  static constexpr microseconds longest_idle{5000};
  microseconds current_ = shortest;
};

class SchedulerLink final : public MessageSink {
 public:
  explicit SchedulerLink(Transport& transport) : transport_(transport) {}
  void send(const Message& message) override { transport_.send(0, message); }

 private:
  Transport& transport_;
};

class RankLoop {
 public:
  RankLoop(const Hello& introduction, const RunOptions& options, Planner& planner,
           Transport& transport, const std::filesystem::path& worker_program)
      : transport_(transport),
        link_(transport),
        supervisor_({transport.rank(), host_name(), worker_program, build_identity()}, link_),
        signals_(signal_descriptor()),
        launcher_(::getppid()) {
    if (transport.rank() == 0) coordinator_.emplace(options, planner, transport);
    link_.send(introduction);
  }

  int run() {
    while (!finished()) {
      if (receive_messages()) interval_.activity();
      supervisor_.tick();
      if (coordinator_) coordinator_->tick();
      watch_launcher();
      wait();
    }
    return supervisor_.exit_code();
  }

 private:
  using Clock = std::chrono::steady_clock;

  static FileDescriptor signal_descriptor() {
    const sigset_t signals = run_signals();
    FileDescriptor descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor.is_open()) throw_system_error("reading signals");
    return descriptor;
  }

  bool finished() {
    if (!supervisor_.is_finished() || (coordinator_ && !coordinator_->is_finished())) return false;
    if (!finished_since_) finished_since_ = Clock::now();
    return transport_.flushed() || Clock::now() - *finished_since_ > flush_deadline;
  }

  bool receive_messages() {
    bool any = false;
    while (auto received = transport_.poll()) {
      any = true;
      if (supervisor_.handle(received->message)) continue;
      if (!coordinator_) {
        throw InternalError("a message for the scheduler reached another rank");
      }
      coordinator_->handle(received->source, received->message);
    }
    return any;
  }

  /// Waits for the worker or a signal, at most until MPI is to be looked at again.
  void wait() {
    std::array<pollfd, 2> entries{pollfd{signals_.get(), POLLIN, 0},
                                  pollfd{supervisor_.worker_descriptor(), POLLIN, 0}};
    const bool running =
        supervisor_.is_running_a_cell() || (coordinator_ && coordinator_->is_running());
    const auto interval = std::chrono::nanoseconds(interval_.next(running));
    const timespec timeout{0, static_cast<long>(interval.count())};
    const int ready = ::ppoll(entries.data(), entries.size(), &timeout, nullptr);
    if (ready <= 0) return;
    interval_.activity();
    if ((entries[0].revents & POLLIN) != 0) read_signal();
  }

  void read_signal() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return;
    if (static_cast<int>(info.ssi_signo) == launcher_signal()) {
      launcher_checked_ = Clock::time_point{};
      return;
    }
    link_.send(Interrupted{static_cast<int>(info.ssi_signo)});
  }

  /// A run whose launcher is gone has nobody to report to, and its peers may be gone too.
  void watch_launcher() {
    if (Clock::now() - launcher_checked_ < launcher_check_interval) return;
    launcher_checked_ = Clock::now();
    if (transport_.size() > 1 && ::getppid() != launcher_) {
      throw LauncherGone("the launcher of this rank is gone");
    }
  }

  Transport& transport_;
  SchedulerLink link_;
  Supervisor supervisor_;
  std::optional<Coordinator> coordinator_;
  FileDescriptor signals_;
  PollInterval interval_;
  pid_t launcher_;
  Clock::time_point launcher_checked_ = Clock::now();
  std::optional<Clock::time_point> finished_since_;
};

}  // namespace

void block_run_signals() {
  const sigset_t signals = run_signals();
  if (::pthread_sigmask(SIG_BLOCK, &signals, nullptr) != 0) {
    throw_system_error("blocking signals");
  }
}

int run_rank(const Hello& introduction, const RunOptions& options, Planner& planner,
             Transport& transport, const std::filesystem::path& worker_program) {
  // The kernel otherwise adds 50 microseconds to every wait.
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  ::prctl(PR_SET_PDEATHSIG, static_cast<unsigned long>(launcher_signal()));
  RankLoop loop(introduction, options, planner, transport, worker_program);
  return loop.run();
}

}  // namespace cgconform::harness
