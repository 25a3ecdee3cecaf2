#include "harness/worker/mock_execution.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/system_error.hpp"
#include "harness/worker_process.hpp"
#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

using suites::RankReport;
using suites::Verdict;

constexpr std::chrono::milliseconds rendezvous_deadline{20000};

RankReport passing_report(const Assignment& assignment) {
  RankReport report;
  report.rank = assignment.rank;
  report.device = assignment.device;
  report.captures = 1;
  report.replays = 1;
  report.comparisons = 1;
  report.cell_digest = assignment.name.hash;
  report.checks.push_back({"SUI-04", Verdict::pass, "mock", std::nullopt});
  return report;
}

void read_address(const volatile char* address) {
  // The reference device has no other way to a wild access than to make one. The pointer is
  // volatile too, so that the compiler cannot tell where it leads.
  const volatile char* volatile hidden = address;
  [[maybe_unused]] const char value = *hidden;
}

[[noreturn]] void sleep_for_ever() {
  while (true) std::this_thread::sleep_for(std::chrono::hours{1});
}

void access_unmapped_arena(ProgressBoard& board) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* arena = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arena == MAP_FAILED) throw_system_error("reserving a mock arena");
  const auto* begin = static_cast<const char*>(arena);
  board.set_arena(begin, begin + page);
  read_address(begin + 16);
}

[[noreturn]] void hang_stubbornly() {
  ::signal(SIGTERM, SIG_IGN);
  if (::fork() == 0) {
    ::setpgid(0, 0);
    sleep_for_ever();
  }
  sleep_for_ever();
}

void leave_process_behind() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    // Its parent ends, so that nobody but the supervisor can find it.
    if (::fork() != 0) ::_exit(0);
    ::close(worker_channel_descriptor);
    sleep_for_ever();
  }
  ::waitpid(child, nullptr, 0);
}

void meet_gang(const Assignment& assignment, WorkerLink& link) {
  const auto store = link.store(assignment.gang);
  const std::string prefix = fmt::format("attempt{}/", assignment.id);
  store->set(prefix + std::to_string(assignment.rank), std::to_string(::getpid()));
  for (std::size_t peer = 0; peer < assignment.world_ranks.size(); ++peer) {
    store->get(prefix + std::to_string(peer), rendezvous_deadline);
  }
}

/// This process and its values of the variables that the cell asked for.
std::string describe_process(const MockCell& mock) {
  std::string text = fmt::format("pid={}", ::getpid());
  for (const auto& [name, asked] : mock.environment) {
    const char* value = std::getenv(name.c_str());
    text += fmt::format(" {}={}", name, value == nullptr ? "unset" : value);
  }
  return text;
}

void fail(RankReport& report) {
  report.checks.push_back({"NUM-01", Verdict::fail_numeric_mismatch, "mock failure", std::nullopt});
}

}  // namespace

RankReport run_mock_cell(const Assignment& assignment, const MockCell& mock, WorkerLink& link,
                         ProgressBoard& board, MockProcess& process) {
  RankReport report = passing_report(assignment);
  board.enter_phase(mock.phase);
  board.start_operation("mock operation");
  if (mock.behaviour == MockBehaviour::rendezvous) meet_gang(assignment, link);
  if (assignment.rank != mock.rank) return report;
  switch (mock.behaviour) {
    case MockBehaviour::pass:
    case MockBehaviour::rendezvous:
      break;
    case MockBehaviour::baseline:
      report.checks.front().verdict = Verdict::baseline;
      report.captures = 0;
      report.replays = 0;
      break;
    case MockBehaviour::nothing_tested:
      report.captures = 0;
      report.replays = 0;
      report.comparisons = 0;
      break;
    case MockBehaviour::failing_check:
      fail(report);
      break;
    case MockBehaviour::failing_when_kept:
      if (!assignment.fresh) fail(report);
      break;
    case MockBehaviour::skip:
      report.checks.front().verdict = Verdict::skip;
      break;
    case MockBehaviour::segfault:
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      read_address(reinterpret_cast<const char*>(std::uintptr_t{8}));
      break;
    case MockBehaviour::wild_access:
      access_unmapped_arena(board);
      break;
    case MockBehaviour::abort_call:
      std::abort();
    case MockBehaviour::killed:
      ::raise(SIGKILL);
      break;
    case MockBehaviour::exit_zero:
      std::_Exit(0);
    case MockBehaviour::exit_nonzero:
      std::_Exit(9);
    case MockBehaviour::hang:
      sleep_for_ever();
    case MockBehaviour::hang_stubbornly:
      hang_stubbornly();
    case MockBehaviour::silent_close:
      ::close(worker_channel_descriptor);
      sleep_for_ever();
    case MockBehaviour::wrong_cell:
      link.send(CellReport{assignment.id + 1, report, 0});
      sleep_for_ever();
    case MockBehaviour::garbage:
      link.send_bytes({0x01, 0x02, 0x03});
      sleep_for_ever();
    case MockBehaviour::other_plan:
      report.cell_digest = "another plan";
      break;
    case MockBehaviour::throwing:
      throw std::runtime_error("mock exception");
    case MockBehaviour::terminated:
      ::raise(SIGTERM);
      break;
    case MockBehaviour::poison:
      process.spoilt = true;
      fail(report);
      break;
    case MockBehaviour::hidden_poison:
      process.spoilt = true;
      break;
    case MockBehaviour::poisoned:
      if (process.spoilt) fail(report);
      break;
    case MockBehaviour::environment:
      report.checks.front().detail = describe_process(mock);
      break;
    case MockBehaviour::left_behind:
      leave_process_behind();
      break;
    case MockBehaviour::lost:
      throw InternalError("a lost mock cell was given out");
    case MockBehaviour::slow:
      std::this_thread::sleep_for(std::chrono::milliseconds{mock.milliseconds});
      break;
  }
  return report;
}

}  // namespace cgconform::harness
