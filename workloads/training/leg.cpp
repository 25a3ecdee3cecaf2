#include "workloads/training/leg.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "workloads/training/eager_problem.hpp"
#include "workloads/training/training_leg.hpp"

namespace cgconform::workloads {
namespace {

/// Keeps the first error; what follows it in the same leg is its echo.
void note_error(LegRecord& record, Phase phase, ErrorCategory category, const char* message) {
  if (!record.error.empty()) return;
  record.error = message;
  record.error_category = category;
  record.error_phase = phase;
}

/// Runs `part`; an error is noted in the record. True where it ran to its end.
template <typename Part>
bool attempt(LegRecord& record, const PhaseClock& clock, Part&& part) {
  try {
    part();
    return true;
  } catch (const DeviceError& error) {
    note_error(record, clock.current(), error.category(), error.what());
  } catch (const Error& error) {
    note_error(record, clock.current(), ErrorCategory::unknown, error.what());
  }
  return false;
}

/// Asks a communicator for an asynchronous error at the end of a phase.
void poll_communicator(const Communicator& communicator, bool injected, Phase ended,
                       std::vector<CommunicatorPoll>& polls) {
  auto poll = std::find_if(polls.begin(), polls.end(), [&](const CommunicatorPoll& known) {
    return known.communicator == communicator.name() && known.phase == ended;
  });
  if (poll == polls.end()) {
    poll = polls.insert(polls.end(), {.communicator = communicator.name(), .phase = ended});
  }
  ++poll->polls;
  const ErrorCategory error =
      injected ? ErrorCategory::communicator_error : communicator.async_error();
  if (poll->first_error == ErrorCategory::success) poll->first_error = error;
}

/// Asks the gang's communicator and those that the leg has split from it.
void poll_communicators(const LegEnvironment& environment, const std::optional<TrainingLeg>& leg,
                        Phase ended, std::vector<CommunicatorPoll>& polls) {
  const Communicator* gang = environment.gang;
  if (gang == nullptr) return;
  const bool injected = environment.sabotage == Sabotage::communicator_reports_error &&
                        ended == Phase::replay && gang->rank() == gang->size() - 1;
  poll_communicator(*gang, injected, ended, polls);
  if (!leg) return;
  for (const Communicator* group : leg->groups().all()) {
    if (group != gang) poll_communicator(*group, false, ended, polls);
  }
}

/// The cell that the request makes of the one under test.
matrix::Cell varied(const matrix::Cell& cell, const LegRequest& request) {
  matrix::Cell result = cell;
  if (request.warmup_steps >= 0) result.config.cuda_graph_warmup_steps = request.warmup_steps;
  if (request.without_recompute) {
    result.config.recompute_granularity = matrix::RecomputeGranularity::none;
    result.config.recompute_method = matrix::RecomputeMethod::none;
    result.config.recompute_num_layers.reset();
    result.config.recompute_modules.reset();
  }
  return result;
}

/// What a leg runs that is not the cell's training as it stands.
void adapt(CapturePlan& plan, const LegRequest& request, const FaultSwitches& faults) {
  if (request.other_pools) plan.separate_pools = !plan.separate_pools;
  if (faults.is_on(Fault::f30f_private_pool_a_graph)) plan.separate_pools = true;
  if (request.cycles == 0) return;
  // As short as it can be: every graph is captured and replayed at least once.
  constexpr std::int32_t most_warmup = 1;
  plan.warmup_steps = std::min(plan.warmup_steps, most_warmup);
  plan.training_steps = std::max(plan.warmup_steps, 0) + 2;
}

/// Waits until nothing is in flight; an asynchronous error shows here.
void drain(Device& device) {
  device.synchronize();
}

/// Runs the leg from its initial state or from `loaded`, to its end or to where it saves `saved`.
LegRecord run_part(const matrix::Cell& cell, const LegRequest& request,
                   const LegEnvironment& environment, const TrainingState& loaded,
                   TrainingState* saved) {
  matrix::Cell varied_cell = varied(cell, request);
  LegRecord record;
  std::optional<TrainingLeg> leg;
  PhaseClock clock(environment.progress, environment.device,
                   [&](Phase ended) { poll_communicators(environment, leg, ended, record.polls); });
  clock.enter(Phase::setup);
  environment.device.set_replay_seed(request.replay_seed);
  environment.device.reset_counters();
  const auto memory = std::make_shared<LegMemory>(environment.device, request.instrumented,
                                                  segment_kind_of(varied_cell));
  record.memory = memory;
  CapturePlan plan;
  const bool ready = attempt(record, clock, [&] {
    if (request.kind == LegKind::eager) varied_cell = eager_problem(varied_cell);
    plan = plan_capture(varied_cell);
    if (request.steps > 0) plan.training_steps = request.steps;
    adapt(plan, request, environment.faults);
    leg.emplace(varied_cell, request, environment, plan, *memory, clock, record);
  });
  if (ready) {
    attempt(record, clock, [&] {
      if (loaded.saved()) leg->load(loaded);
      if (saved == nullptr) {
        leg->run();
      } else {
        leg->run_to(request.restart_after);
        *saved = leg->save();
      }
    });
    attempt(record, clock, [&] { drain(environment.device); });
    attempt(record, clock, [&] { leg->tear_down(); });
  }
  leg.reset();
  attempt(record, clock, [&] { drain(environment.device); });
  // What was observed stays with the record; the rest need not.
  attempt(record, clock, [&] { memory->allocator->trim(default_pool); });
  clock.enter(Phase::idle);
  record.timings = clock.timings();
  return record;
}

/// Puts what the leg showed before its restart in front of what it showed afterwards.
void join(LegRecord& before, LegRecord& after) {
  after.memory = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
      std::move(after.memory), before.memory);
  std::vector<Observation> observations = std::move(before.observations);
  for (Observation& observation : after.observations) {
    observations.push_back(std::move(observation));
  }
  after.observations = std::move(observations);
}

}  // namespace

LegRecord run_leg(const matrix::Cell& cell, const LegRequest& request,
                  const LegEnvironment& environment) {
  if (request.restart_after == 0) return run_part(cell, request, environment, {}, nullptr);
  TrainingState checkpoint;
  LegRecord before = run_part(cell, request, environment, {}, &checkpoint);
  if (!before.error.empty()) return before;
  LegRecord after = run_part(cell, request, environment, checkpoint, nullptr);
  join(before, after);
  return after;
}

}  // namespace cgconform::workloads
