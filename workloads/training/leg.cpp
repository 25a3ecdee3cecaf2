#include "workloads/training/leg.hpp"

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
