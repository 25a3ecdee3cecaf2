#include "suites/checks/capture_recovery.hpp"

#include <array>
#include <string>

#include <fmt/format.h>

#include "workloads/device/device.hpp"
#include "workloads/lifecycle/capture_recovery.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::CaptureBreak;
using workloads::CaptureMode;
using workloads::RecoveryRecord;
using workloads::RecoveryRequest;

std::string_view mode_name(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::global:
      return "global";
    case CaptureMode::thread_local_mode:
      return "thread-local";
    case CaptureMode::relaxed:
      break;
  }
  return "relaxed";
}

/// Which of the five parts does not hold, and how; empty where all do.
std::string broken_part(const RecoveryRecord& record) {
  if (!record.unwinding_error.empty()) return "the unwinding fails: " + record.unwinding_error;
  if (record.capturing) return "a stream still captures";
  if (!record.eager.empty()) return "eager work: " + record.eager;
  if (!record.collective.empty()) return "a collective: " + record.collective;
  if (!record.memory.empty()) return "memory is not back: " + record.memory;
  if (!record.recapture.empty()) return "a new capture: " + record.recapture;
  return {};
}

}  // namespace

CheckResult judge_capture_recovery(ScenarioContext& context) {
  const auto communicator = context.device->create_communicator({.name = "recovery"});
  int scenes = 0;
  for (const CaptureMode mode :
       {CaptureMode::global, CaptureMode::thread_local_mode, CaptureMode::relaxed}) {
    for (const CaptureBreak how :
         {CaptureBreak::synchronization, CaptureBreak::unjoined_fork, CaptureBreak::body_error}) {
      for (const bool private_pool : {true, false}) {
        for (const bool collective : {false, true}) {
          const RecoveryRequest request{mode, how, private_pool, collective};
          const RecoveryRecord record =
              run_capture_recovery(*context.device, *communicator, request, context.faults);
          const std::string scene =
              fmt::format("{} capture into {}{}, broken by {}", mode_name(mode),
                          private_pool ? "a private pool" : "the default pool",
                          collective ? " with a collective" : "", capture_break_name(how));
          if (record.first_error.empty()) {
            return {.verdict = Verdict::fail_suite, .detail = scene + ": nothing broke it"};
          }
          const std::string broken = broken_part(record);
          if (!broken.empty()) {
            return {.verdict = Verdict::fail_recovery,
                    .detail = fmt::format("{} ({}): {}", scene, record.first_error, broken)};
          }
          ++scenes;
        }
      }
    }
  }
  return {.detail = fmt::format("{} broken captures were unwound, each in five parts", scenes)};
}

}  // namespace cgconform::suites::checks
