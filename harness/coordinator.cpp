#include "harness/coordinator.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/attempts.hpp"
#include "harness/build_info.hpp"
#include "harness/deadlines.hpp"
#include "harness/device_selection.hpp"
#include "harness/fingerprint.hpp"
#include "harness/launcher.hpp"
#include "harness/lift.hpp"
#include "harness/rank_agreement.hpp"
#include "harness/report_audit.hpp"
#include "harness/report_folder.hpp"
#include "harness/resume.hpp"
#include "harness/system_error.hpp"
#include "harness/worker_wrapper.hpp"
#include "reports/console_report.hpp"
#include "reports/json_report.hpp"
#include "reports/junit_report.hpp"

namespace cgconform::harness {
namespace {

using std::chrono::seconds;
using suites::CellResult;

constexpr seconds greeting_deadline{60};
constexpr seconds starting_deadline{120};
constexpr seconds goodbye_deadline{30};
/// Beyond a cell's own deadline: for stacks, TERM, KILL and the next worker.
constexpr seconds silence_allowance{60};
/// Decided cells reported before messages are looked at again.
constexpr int decided_cells_at_once = 256;

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Coordinator::Coordinator(RunOptions options, Planner& planner, Transport& transport)
    : options_(std::move(options)),
      planner_(planner),
      transport_(transport),
      hellos_(static_cast<std::size_t>(transport.size())),
      greeted_(static_cast<std::size_t>(transport.size()), false),
      limits_(options_.selection) {}

Coordinator::~Coordinator() = default;

void Coordinator::handle(int source, const Message& message) {
  guarded([&] {
    std::visit(
        [&](const auto& body) {
          using M = std::decay_t<decltype(body)>;
          const auto place = static_cast<std::size_t>(source);
          if constexpr (std::is_same_v<M, Hello>) {
            hellos_[place] = body;
            greeted_[place] = true;
          } else if constexpr (std::is_same_v<M, Begun>) {
            if (!body.trouble.empty()) {
              throw EnvironmentError(
                  fmt::format("rank {} on {}: {}", source, hellos_[place].host, body.trouble));
            }
            ++begun_;
          } else if constexpr (std::is_same_v<M, Interrupted>) {
            interrupt(body.signal);
          } else if constexpr (std::is_same_v<M, Goodbye>) {
            ++goodbyes_;
          } else if (!scheduler_ || stage_ != Stage::running) {
            return;  // a run that ends no longer needs it
          } else if constexpr (std::is_same_v<M, CellReport>) {
            scheduler_->on_report(source, body);
          } else if constexpr (std::is_same_v<M, StaleAssignment>) {
            scheduler_->on_stale(source, body);
          } else if constexpr (std::is_same_v<M, WorkerLost>) {
            scheduler_->on_worker_lost(source, body);
          } else if constexpr (std::is_same_v<M, StoreSet>) {
            scheduler_->on_store_set(body);
          } else if constexpr (std::is_same_v<M, StoreGet>) {
            scheduler_->on_store_get(source, body);
          } else {
            throw InternalError(fmt::format("rank {} sent a message of type {} to the scheduler",
                                            source, message_name(message)));
          }
        },
        message);
  });
}

void Coordinator::tick() {
  const auto in_stage = Clock::now() - stage_since_;
  switch (stage_) {
    case Stage::greeting:
      if (std::count(greeted_.begin(), greeted_.end(), true) == world()) {
        guarded([this] { plan_run(); });
      } else if (in_stage > greeting_deadline) {
        const auto silent = std::find(greeted_.begin(), greeted_.end(), false) - greeted_.begin();
        throw EnvironmentError(fmt::format("rank {} did not introduce itself within {} s", silent,
                                           greeting_deadline.count()));
      }
      break;
    case Stage::starting:
      if (begun_ == world()) {
        stage_ = Stage::running;
        started_ = Clock::now();
        limits_.begin(started_);
      } else if (in_stage > starting_deadline) {
        refuse(ExitCode::environment,
               fmt::format("the workers of {} ranks did not start within {} s", world() - begun_,
                           starting_deadline.count()));
      }
      break;
    case Stage::running:
      guarded([this] { run_on(); });
      break;
    case Stage::stopping:
      if (goodbyes_ == world()) {
        stage_ = Stage::ended;
      } else if (in_stage > goodbye_deadline) {
        throw InternalError(fmt::format("{} ranks did not end within {} s", world() - goodbyes_,
                                        goodbye_deadline.count()));
      }
      break;
    case Stage::ended:
      break;
  }
}

void Coordinator::interrupt(int signal) {
  if (stage_ == Stage::stopping || stage_ == Stage::ended) return;
  std::fputs(fmt::format("cgconform: interrupted by signal {}\n", signal).c_str(), stderr);
  finish(ExitCode::interrupted);
}

void Coordinator::guarded(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    refuse(ExitCode::unusable_input, error.what());
  } catch (const EnvironmentError& error) {
    refuse(ExitCode::environment, error.what());
  } catch (const std::exception& error) {
    refuse(ExitCode::internal_error, error.what());
  }
}

void Coordinator::plan_run() {
  require_agreement(hellos_);
  require_same_ranks(options_, world());
  planner_.check_input();
  device_ = select_device(options_, hellos_);
  std::vector<int> gpus;
  if (device_ == cuda_device_name) {
    sharing_ = decide_gpu_sharing(gpus_of(hellos_));
    for (const Hello& hello : hellos_) gpus.push_back(std::stoi(hello.facts.at(gpu_ordinal_fact)));
  }
  plan_ = planner_.plan({device_, world(), sharing_.shared});
  const double deadline_scale =
      options_.deadline_scale * plan_.deadline_scale * wrapped_deadline_scale(options_.wrap);
  SchedulerOptions scheduling;
  scheduling.ranks = world();
  scheduling.seed = options_.seed;
  scheduling.device = device_;
  // Peers of a rank that hangs report before its own deadline passes, and so point at it.
  scheduling.communicator_timeout_milliseconds =
      Deadlines(deadline_scale).phase(workloads::Phase::replay).count() / 2;
  // A wrapper's report is complete once its worker has ended: a worker runs one cell.
  scheduling.always_fresh = options_.isolation == IsolationChoice::cell || !options_.wrap.empty();
  scheduling.share_legs = options_.share_legs;
  scheduling.guard_pages = guard_pages_name(options_.guard_pages);
  scheduling.gpus = std::move(gpus);
  scheduling.gpus_shared = sharing_.shared;
  scheduling.rank_environments = sharing_.environments;
  scheduler_.emplace(scheduling);
  if (!options_.resume.empty() && !take_up_run()) return;
  open_reports(plan_);
  Begin begin;
  begin.log_directory = (folder_ / "logs").string();
  begin.deadline_scale = deadline_scale;
  begin.cell_deadline_milliseconds = options_.cell_deadline.count();
  begin.wrap = options_.wrap;
  for (int rank = 0; rank < world(); ++rank) {
    if (sharing_.shared) begin.environment = sharing_.environments[static_cast<std::size_t>(rank)];
    transport_.send(rank, begin);
  }
  stage_ = Stage::starting;
  stage_since_ = Clock::now();
}

JournalHeader Coordinator::journal_header() const {
  const Hello& hello = hellos_.front();
  JournalHeader header;
  header.matrix = plan_.matrix_name;
  header.matrix_hash = plan_.matrix_hash;
  header.binary_hash = hello.facts.at("binary");
  header.worker_hash = hello.facts.at("worker binary");
  header.seed = options_.seed;
  header.device = device_;
  header.ranks = world();
  header.options = deciding_options(options_);
  header.variables = relevant_variables();
  header.arguments = options_.arguments;
  header.directory = std::filesystem::current_path().string();
  return header;
}

bool Coordinator::take_up_run() {
  folder_ = std::filesystem::absolute(options_.resume).lexically_normal();
  journal_.emplace(folder_ / "journal.jsonl");
  const JournalContents& before = journal_->before();
  require_same_run(options_.resume, before.header, journal_header());
  histories_ = cell_histories(before);
  const bool settled = std::all_of(histories_.begin(), histories_.end(),
                                   [](const auto& entry) { return is_settled(entry.second); });
  if (before.finished && settled) {
    const auto code = static_cast<ExitCode>(*before.finished);
    std::fputs(fmt::format("cgconform: the run in {} is finished: exit code {}: {}\n",
                           folder_.string(), *before.finished, exit_code_meaning(code))
                   .c_str(),
               stdout);
    shut_down(code);
    return false;
  }
  journal_->resume();
  clear_resumed_reports(folder_);
  return true;
}

void Coordinator::open_reports(RunPlan& plan) {
  if (!journal_) {
    folder_ = std::filesystem::absolute(prepare_report_folder(options_.report, options_.force));
    journal_.emplace(folder_ / "journal.jsonl", journal_header());
  }
  std::filesystem::create_directory(folder_ / "logs");
  // A launcher gives its ranks a terminal also where its own output is a file.
  const bool terminal = !launcher_rank() && ::isatty(STDOUT_FILENO) == 1;
  writers_.push_back(std::make_unique<reports::ConsoleReport>(
      reports::ConsoleOptions{.colour = terminal, .live_line = terminal, .quiet = options_.quiet}));
  writers_.push_back(std::make_unique<reports::ResultsJsonl>(folder_));
  writers_.push_back(std::make_unique<reports::SummaryJson>(folder_));
  writers_.push_back(std::make_unique<reports::JunitReport>(folder_));
  if (plan.report) writers_.push_back(plan.report(folder_));
  const reports::RunInfo info = run_info(plan);
  summary_.emplace(info.planned);
  for (const auto& writer : writers_) writer->begin(info);
}

reports::RunInfo Coordinator::run_info(const RunPlan& plan) const {
  const BuildInfo build = build_info();
  reports::RunInfo info;
  info.version = build.version;
  info.git_commit = build.git_commit;
  info.command_line = options_.command_line;
  info.matrix = plan.matrix_name;
  info.matrix_hash = plan.matrix_hash;
  info.seed = options_.seed;
  info.device = device_;
  info.report_directory = folder_.string();
  info.started = utc_now();
  info.selection = selection_text(options_.selection, options_.seed);
  info.planned = plan.source->counts();
  if (sharing_.shared) info.notices.push_back(sharing_.notice);
  for (const Hello& hello : hellos_) {
    info.ranks.push_back({hello.world_rank, hello.host, hello.pid, device_, hello.facts});
  }
  return info;
}

void Coordinator::run_on() {
  stop_where_limited();
  pull_cells();
  if (source_exhausted_) feed_retries();
  scheduler_->dispatch();
  send_scheduled();
  for (const FinishedAttempt& attempt : scheduler_->take_finished()) attempt_finished(attempt);
  journal_->tick();
  watch_silence();
  const bool retries_left = next_retry_ < retries_.size();
  if (source_exhausted_ && scheduler_->idle() && !retries_left) finish(std::nullopt);
}

void Coordinator::stop_where_limited() {
  if (!stop_reason_.empty()) return;
  stop_reason_ = limits_.reason_to_stop(Clock::now());
  if (stop_reason_.empty()) return;
  plan_.source->stop();
  for (const PlannedCell& planned : scheduler_->take_waiting()) skip(planned);
}

/// Reports a cell that was planned to run and is not started any more.
void Coordinator::skip(const PlannedCell& planned) {
  CellResult result;
  result.index = planned.cell.index;
  result.id = planned.name.id;
  result.hash = planned.name.hash;
  result.verdict = suites::Verdict::skip;
  result.reason = stop_reason_;
  result.round = planned.round;
  result.seed = planned.seed.value_or(options_.seed);
  emit(result);
}

void Coordinator::pull_cells() {
  int decided = 0;
  while (!source_exhausted_ && scheduler_->wants_cells() && decided < decided_cells_at_once) {
    auto item = plan_.source->next();
    if (!item) {
      source_exhausted_ = true;
    } else if (auto* planned = std::get_if<PlannedCell>(&*item)) {
      add_cell(std::move(*planned));
      ++decided;
    } else {
      emit(std::get<CellResult>(*item));
      ++decided;
    }
  }
}

void Coordinator::add_cell(PlannedCell planned) {
  const AttemptKey key{planned.name.hash, planned.round};
  const auto history = histories_.find(key);
  const bool known = history != histories_.end();
  if (known && is_settled(history->second)) {
    emit(*history->second.final);
  } else if (known && history->second.first_attempt) {
    first_attempts_[key] = *history->second.first_attempt;
    retries_.push_back(std::move(planned));
  } else if (!stop_reason_.empty()) {
    skip(planned);
  } else {
    scheduler_->add(std::move(planned), 1);
  }
}

void Coordinator::feed_retries() {
  while (next_retry_ < retries_.size() && scheduler_->wants_cells()) {
    scheduler_->add(std::move(retries_[next_retry_]), 2);
    ++next_retry_;
  }
}

void Coordinator::attempt_finished(const FinishedAttempt& attempt) {
  CellResult result = judge_attempt(attempt);
  mark_lifted(result, attempt.planned.lifted);
  result.seed = attempt.planned.seed.value_or(options_.seed);
  limits_.note(result);
  if (suites::is_bad(result.verdict) ||
      suites::verdict_class(result.verdict) == suites::VerdictClass::environment) {
    RunOptions alone = options_;
    alone.seed = result.seed;
    result.reproducer = plan_.reproducer ? plan_.reproducer(attempt.planned)
                                         : reproducer_line(alone, device_, attempt.planned.ranks,
                                                           result.hash, attempt.planned.mock);
    result.reproducer.insert(0, matrix::environment_prefix(attempt.planned.environment));
  }
  if (attempt.attempt == 1 && deserves_second_attempt(result, attempt.fresh)) {
    result.provisional = true;
    journal_->append(result);
    first_attempts_[{result.hash, result.round}] = result;
    retries_.push_back(attempt.planned);
    return;
  }
  const auto first = first_attempts_.find({result.hash, result.round});
  if (first != first_attempts_.end()) {
    const std::string reproducer = first->second.reproducer;
    result = merge_attempts(first->second, result);
    if (result.reproducer.empty()) result.reproducer = reproducer;
    first_attempts_.erase(first);
  }
  if (plan_.conclude) result = plan_.conclude(std::move(result));
  journal_->append(result);
  if (options_.measure_overhead) {
    const std::chrono::duration<double, std::milli> to_journal = Clock::now() - attempt.started;
    attempt_milliseconds_.push_back(to_journal.count());
  }
  emit(result);
}

void Coordinator::emit(const CellResult& result) {
  summary_->add(result);
  for (const auto& writer : writers_) writer->cell_finished(result);
}

void Coordinator::send_scheduled() {
  for (Outgoing& outgoing : scheduler_->take_messages()) {
    transport_.send(outgoing.rank, outgoing.message);
  }
}

void Coordinator::watch_silence() const {
  const auto oldest = scheduler_->oldest_start();
  if (oldest && Clock::now() - *oldest > options_.cell_deadline + silence_allowance) {
    throw InternalError(fmt::format("rank {} has not reported within the deadline of its cell",
                                    fmt::join(scheduler_->silent_ranks(), ", ")));
  }
}

void Coordinator::finish(std::optional<ExitCode> forced) {
  ExitCode code = forced.value_or(ExitCode::passed);
  if (summary_) {
    summary_->plan(plan_.source->counts());
    const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
    reports::RunSummary summary = summary_->finish(0, {}, elapsed);
    if (!forced) code = plan_.judge ? plan_.judge(summary) : exit_code_of(summary);
    const auto most_skips = options_.selection.max_skips;
    if (code == ExitCode::passed && most_skips && skips_too_many(summary, *most_skips)) {
      code = ExitCode::unplanned_skips;
    }
    summary.exit_code = exit_status(code);
    summary.exit_meaning = exit_code_meaning(code);
    if (code == ExitCode::interrupted) {
      summary.resume_line = resume_line(options_, world(), folder_);
    }
    journal_->sync();
    for (const auto& writer : writers_) writer->end(summary);
    const std::string disagreement = audit_reports(folder_, summary);
    if (!disagreement.empty()) {
      std::fputs(fmt::format("cgconform: SUI-06: the reports disagree: {}\n", disagreement).c_str(),
                 stderr);
      code = ExitCode::internal_error;
    } else if (!forced) {
      journal_->finish(exit_status(code));
    }
    if (options_.measure_overhead) {
      std::fputs(fmt::format("runner overhead: median {:.3f} ms a cell over {} cells\n",
                             median(attempt_milliseconds_), attempt_milliseconds_.size())
                     .c_str(),
                 stdout);
    }
  }
  shut_down(code);
}

void Coordinator::shut_down(ExitCode code) {
  for (int rank = 0; rank < world(); ++rank) transport_.send(rank, Shutdown{exit_status(code)});
  stage_ = Stage::stopping;
  stage_since_ = Clock::now();
}

void Coordinator::refuse(ExitCode code, const std::string& message) {
  if (stage_ == Stage::stopping || stage_ == Stage::ended) return;
  std::fputs(fmt::format("cgconform: {}\n", message).c_str(), stderr);
  // Verdicts that were reached stay; a report that cannot be completed must not hide the reason.
  if (summary_ && stage_ == Stage::running) {
    try {
      finish(code);
      return;
    } catch (const std::exception&) {
      stage_since_ = Clock::now();
    }
  }
  shut_down(code);
}

}  // namespace cgconform::harness
