#include "harness/supervisor.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "harness/crash_record.hpp"
#include "harness/process_tree.hpp"
#include "harness/sanitizer_report.hpp"
#include "harness/system_error.hpp"
#include "harness/worker_wrapper.hpp"

namespace cgconform::harness {
namespace {

using std::chrono::milliseconds;
using suites::AbnormalEnd;
using suites::RankReport;
using suites::Verdict;

constexpr int most_failed_starts = 3;
/// For a wrapper to write its report once the worker was told to end.
constexpr milliseconds wrapper_report_deadline{60000};
/// The check that guards what workers report.
constexpr std::string_view report_check = "SUI-04";

/// How long after `since` the clock stands now.
milliseconds elapsed(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - since);
}

std::string end_text(const ProcessEnd& end) {
  return end.signal != 0 ? fmt::format("ended by {}", signal_name(end.signal))
                         : fmt::format("exited with code {}", end.exit_code);
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options, MessageSink& scheduler)
    : options_(std::move(options)), scheduler_(scheduler) {}

Supervisor::~Supervisor() = default;

bool Supervisor::handle(const Message& message) {
  return std::visit(
      [this](const auto& body) {
        using M = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<M, Begin>) {
          begin(body);
        } else if constexpr (std::is_same_v<M, Assignment>) {
          assign(body);
        } else if constexpr (std::is_same_v<M, StopAssignment>) {
          stop(body);
        } else if constexpr (std::is_same_v<M, RetireGang> || std::is_same_v<M, StoreValue>) {
          if (worker_) worker_->channel().send(encode(body));
        } else if constexpr (std::is_same_v<M, Shutdown>) {
          shut_down(body.exit_code);
        } else {
          return false;
        }
        return true;
      },
      message);
}

void Supervisor::tick() {
  if (!worker_) return;
  read_worker();
  if (!worker_) return;
  if (ending_ != Ending::none) {
    move_ending_on();
  } else if (assignment_) {
    watch_deadlines();
  } else if (!worker_ready_ && elapsed(worker_started_) > deadlines_.worker_start()) {
    worker_->terminate();
    worker_is_gone();
  }
}

int Supervisor::worker_descriptor() const {
  return worker_ ? worker_->channel().descriptor() : -1;
}

void Supervisor::begin(const Begin& begin) {
  wrap_ = begin.wrap;
  environment_ = begin.environment;
  deadlines_ = Deadlines(begin.deadline_scale, milliseconds{begin.cell_deadline_milliseconds});
  if (!begin.log_directory.empty()) {
    log_file_ =
        std::filesystem::path(begin.log_directory) / fmt::format("rank{}.log", options_.world_rank);
  }
  try {
    start_worker();
  } catch (const EnvironmentError& error) {
    scheduler_.send(Begun{error.what()});
  }
}

void Supervisor::start_worker() {
  worker_.reset();
  strays_.end(-1);
  ++generation_;
  WorkerOptions options{options_.worker_program, log_file_, {}, environment_};
  if (!wrap_.empty()) {
    wrapper_log_ = log_file_.parent_path() /
                   fmt::format("rank{}.{}.{}.log", options_.world_rank, wrap_, generation_);
    options.wrapper = wrapper_words(wrap_, wrapper_log_);
  }
  worker_ = std::make_unique<WorkerProcess>(options);
  worker_ready_ = false;
  pristine_ = true;
  ending_ = Ending::none;
  worker_started_ = Clock::now();
}

void Supervisor::replace_idle_worker() {
  if (worker_->channel().send(encode(Shutdown{}))) worker_->await_end(deadlines_.grace());
  start_worker();
}

void Supervisor::assign(const Assignment& assignment) {
  if (!assignment.new_gang && assignment.worker_generation != generation_) {
    scheduler_.send(StaleAssignment{assignment.id, generation_});
    return;
  }
  const bool other_environment = assignment.environment != environment_;
  environment_ = assignment.environment;
  if (other_environment || (assignment.fresh && !pristine_)) replace_idle_worker();
  assignment_ = assignment;
  cell_deadlines_ = assignment.deadline_scale > 0.0
                        ? Deadlines(assignment.deadline_scale, deadlines_.cell())
                        : deadlines_;
  assigned_ = Clock::now();
  assigned_monotonic_ = monotonic_now();
  pristine_ = false;
  ended_by_peer_ = false;
  // Where the worker is gone already, reading from it says so at the next tick.
  worker_->channel().send(encode(assignment));
}

void Supervisor::stop(const StopAssignment& stop) {
  if (assignment_ && assignment_->id == stop.assignment) {
    if (ending_ != Ending::none) return;
    ended_by_peer_ = true;
    begin_ending(stop.hang);
    return;
  }
  // This rank had already reported; its worker shares a communicator with one that broke.
  if (worker_ && !assignment_) {
    replace_idle_worker();
    scheduler_.send(WorkerLost{generation_});
  }
}

void Supervisor::shut_down(int exit_code) {
  exit_code_ = exit_code;
  if (worker_) {
    if (!assignment_ && worker_->channel().send(encode(Shutdown{}))) {
      worker_->await_end(deadlines_.grace());
    }
    worker_.reset();
  }
  strays_.end(-1);
  assignment_.reset();
  finished_ = true;
  scheduler_.send(Goodbye{options_.world_rank});
}

void Supervisor::read_worker() {
  const WorkerProcess* reading = worker_.get();
  const bool open = worker_->channel().fill();
  try {
    while (worker_.get() == reading) {
      const auto packet = worker_->channel().next();
      if (!packet) break;
      handle_worker_message(decode(*packet));
    }
  } catch (const EnvironmentError& error) {
    report_misbehaviour(error.what());
    return;
  }
  if (worker_.get() == reading && !open) worker_is_gone();
}

void Supervisor::handle_worker_message(const Message& message) {
  if (const auto* ready = std::get_if<WorkerReady>(&message)) {
    worker_ready_ = true;
    failed_starts_ = 0;
    const bool same = ready->build == options_.worker_build;
    if (!begun_) {
      begun_ = true;
      scheduler_.send(
          Begun{same ? std::string()
                     : fmt::format(
                           "{} is of another build ({}) than cgconform ({}): install both together",
                           options_.worker_program.string(), ready->build, options_.worker_build)});
    }
  } else if (const auto* report = std::get_if<CellReport>(&message)) {
    handle_cell_report(*report);
  } else if (std::holds_alternative<StoreSet>(message) ||
             std::holds_alternative<StoreGet>(message)) {
    scheduler_.send(message);
  } else {
    throw EnvironmentError(
        fmt::format("a worker does not send messages of type {}", message_name(message)));
  }
}

void Supervisor::handle_cell_report(const CellReport& report) {
  if (ending_ != Ending::none) return;
  if (!assignment_) {
    // Said after the cell had been reported: whatever it is, this worker is not to be trusted.
    replace_idle_worker();
    scheduler_.send(WorkerLost{generation_});
    return;
  }
  if (report.assignment != assignment_->id || report.report.rank != assignment_->rank) {
    report_misbehaviour(
        fmt::format("the worker reported attempt {} as rank {}, while attempt {} "
                    "runs as rank {}",
                    report.assignment, report.report.rank, assignment_->id, assignment_->rank));
    return;
  }
  RankReport checked = report.report;
  checked.world_rank = options_.world_rank;
  checked.host = options_.host;
  if (!wrap_.empty()) {
    // Its wrapper says what it saw once the worker has ended.
    held_ = std::move(checked);
    worker_->channel().send(encode(Shutdown{}));
    ending_ = Ending::wrapper_report;
    ending_since_ = Clock::now();
    return;
  }
  if (checked.abnormal_end) {
    // The worker says itself that it cannot go on: its device's context has ended.
    if (checked.abnormal_end->last_operation.empty()) {
      checked.abnormal_end->last_operation = read_progress(worker_->board()).last_operation;
    }
    send_report(std::move(checked));
    start_worker();
    return;
  }
  assignment_.reset();
  scheduler_.send(CellReport{report.assignment, std::move(checked), generation_});
}

void Supervisor::worker_is_gone() {
  // A wrapper writes its report after the worker has closed its channel.
  const ProcessEnd end =
      worker_->await_end(wrap_.empty() ? deadlines_.grace() : wrapper_report_deadline);
  if (assignment_) {
    if (held_) {
      RankReport report = std::move(*held_);
      held_.reset();
      send_report(std::move(report));
    } else if (ending_ != Ending::none && ending_is_hang_) {
      report_end(describe_hang(worker_->board()));
    } else if (ending_ != Ending::none) {
      AbnormalEnd peer = describe_hang(worker_->board());
      peer.verdict = Verdict::crash;
      report_end(std::move(peer));
    } else {
      report_end(describe_crash(worker_->board(), end));
    }
    start_worker();
    return;
  }
  if (!worker_ready_ && ++failed_starts_ >= most_failed_starts) {
    const std::string trouble =
        fmt::format("the worker {} {} times {} before it was ready; its output is in {}",
                    options_.worker_program.string(), failed_starts_, end_text(end),
                    log_file_.empty() ? "the output of this rank" : log_file_.string());
    if (begun_) throw EnvironmentError(trouble);
    worker_.reset();
    scheduler_.send(Begun{trouble});
    return;
  }
  start_worker();
  if (begun_) scheduler_.send(WorkerLost{generation_});
}

void Supervisor::watch_deadlines() {
  const ProgressSnapshot progress = read_progress(worker_->board());
  const auto since = std::max(progress.phase_started, assigned_monotonic_);
  if (monotonic_now() - since > cell_deadlines_.phase(progress.phase) ||
      elapsed(assigned_) > cell_deadlines_.cell()) {
    begin_ending(true);
  }
}

void Supervisor::begin_ending(bool hang) {
  ending_ = Ending::stacks;
  ending_is_hang_ = hang;
  ending_since_ = Clock::now();
  stacks_asked_ = worker_->request_stacks();
}

void Supervisor::move_ending_on() {
  if (ending_ == Ending::stacks) {
    if (stacks_complete(worker_->board(), stacks_asked_) ||
        elapsed(ending_since_) > deadlines_.stack_dump()) {
      worker_->terminate();
      ending_ = Ending::terminating;
      ending_since_ = Clock::now();
    }
  } else if (elapsed(ending_since_) >
             (ending_ == Ending::wrapper_report ? wrapper_report_deadline : deadlines_.grace())) {
    kill_session(worker_->pid());
    worker_is_gone();
  }
}

void Supervisor::report_misbehaviour(const std::string& what) {
  if (!assignment_) {
    start_worker();
    if (begun_) scheduler_.send(WorkerLost{generation_});
    return;
  }
  RankReport report = empty_report();
  AbnormalEnd end = describe_crash(worker_->board(), ProcessEnd{});
  end.verdict = Verdict::crash;
  report.abnormal_end = std::move(end);
  report.checks.push_back({std::string(report_check), Verdict::fail_suite, what, std::nullopt});
  send_report(std::move(report));
  start_worker();
}

void Supervisor::report_end(AbnormalEnd end) {
  RankReport report = empty_report();
  end.ended_by_peer = ended_by_peer_;
  report.abnormal_end = std::move(end);
  send_report(std::move(report));
}

void Supervisor::add_wrapper_report(RankReport& report) const {
  std::ifstream file(wrapper_log_);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  SanitizerReport seen = parse_sanitizer_report(text);
  seen.has_unseen_writes = has_unseen_writes(assignment_->cell);
  add_sanitizer_report(seen, wrap_, report);
}

void Supervisor::send_report(RankReport report) {
  if (!wrap_.empty()) add_wrapper_report(report);
  const std::uint64_t id = assignment_->id;
  assignment_.reset();
  scheduler_.send(CellReport{id, std::move(report), generation_ + 1});
}

RankReport Supervisor::empty_report() const {
  RankReport report;
  report.rank = assignment_->rank;
  report.world_rank = options_.world_rank;
  report.host = options_.host;
  report.device = assignment_->device;
  return report;
}

}  // namespace cgconform::harness
