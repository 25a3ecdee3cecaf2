#include "workloads/training/leg.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

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

}  // namespace

LegRecord run_leg(const matrix::Cell& cell, const LegRequest& request,
                  const LegEnvironment& environment) {
  LegRecord record;
  PhaseClock clock(environment.progress, environment.device);
  clock.enter(Phase::setup);
  environment.device.set_replay_seed(request.replay_seed);
  environment.device.reset_counters();
  const auto memory = std::make_shared<LegMemory>(environment.device);
  record.memory = memory;
  CapturePlan plan;
  std::optional<TrainingLeg> leg;
  const bool ready = attempt(record, clock, [&] {
    plan = plan_capture(cell);
    adapt(plan, request, environment.faults);
    leg.emplace(cell, request, environment, plan, *memory, clock, record);
  });
  if (ready) {
    attempt(record, clock, [&] { leg->run(); });
    attempt(record, clock, [&] { drain(environment.device); });
    attempt(record, clock, [&] { leg->tear_down(); });
  }
  leg.reset();
  attempt(record, clock, [&] { drain(environment.device); });
  clock.enter(Phase::idle);
  record.timings = clock.timings();
  return record;
}

}  // namespace cgconform::workloads
