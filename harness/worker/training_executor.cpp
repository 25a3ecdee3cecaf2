#include "harness/worker/training_executor.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/device_selection.hpp"
#include "harness/selftest_plan.hpp"
#include "harness/switch_names.hpp"
#include "harness/worker/child_starter.hpp"
#include "matrix/error.hpp"
#include "reports/round_tally.hpp"
#include "suites/cell_runner.hpp"
#include "suites/comparison.hpp"
#include "workloads/device/cuda/cuda_device.hpp"
#include "workloads/device/errors.hpp"
#include "workloads/device/guarded_device.hpp"
#include "workloads/training/leg.hpp"

namespace cgconform::harness {
namespace {

using suites::RankReport;
using suites::Verdict;
using workloads::Sabotage;

/// Memory of this process; 0 where the kernel does not say.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0.0;
  double resident = 0.0;
  if (!(file >> pages >> resident)) return 0.0;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

workloads::BlockPlacement placement_named(std::string_view guard_pages) {
  if (guard_pages == "end") return workloads::BlockPlacement::at_end;
  if (guard_pages == "start") return workloads::BlockPlacement::at_start;
  return workloads::BlockPlacement::packed;
}

/// Adds what the driver and NCCL said meanwhile to the check that failed; where none did, it stands
/// in the worker's log alone.
void attach_notes(const std::vector<std::string>& notes, RankReport& report) {
  const suites::CheckResult* deciding = suites::deciding_check(report.checks);
  if (deciding == nullptr) return;
  std::string& detail =
      report.checks[static_cast<std::size_t>(deciding - report.checks.data())].detail;
  for (const std::string& note : notes) detail += fmt::format("; {}", note);
}

/// What the process of an assignment has beside its cell.
std::string environment_text(const Assignment& assignment) {
  std::string text = "guard pages " + assignment.guard_pages;
  for (const auto& [name, value] : assignment.environment) {
    text += fmt::format("\n{}={}", name, value);
  }
  return text;
}

/// Kept legs may take a small part of the device's memory.
std::int64_t bytes_for_shared_legs(const workloads::Device& device) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  constexpr std::int64_t part = 16;
  return std::min(most, device.properties().memory_bytes / part);
}

RankReport failed_report(const Assignment& assignment, Verdict verdict, std::string detail) {
  RankReport report;
  report.rank = assignment.rank;
  report.device = assignment.device;
  report.checks.push_back({"SUI-04", verdict, std::move(detail), std::nullopt});
  return report;
}

}  // namespace

RankReport TrainingExecutor::execute(const Assignment& assignment) {
  board_.enter_phase(workloads::Phase::setup);
  try {
    open_device(assignment);
    progress_.arm(mishap_for(assignment.mishap, assignment.rank));
    RankReport report = assignment.scenario.empty() ? run(assignment) : run_scenario(assignment);
    report.rank = assignment.rank;
    report.device = assignment.device;
    for (const auto& [name, value] : device_->measurements()) report.measurements[name] = value;
    // Processes that share a GPU take turns: what is measured then is the turns.
    report.measurements["times meaningful"] = assignment.gpus_shared ? 0.0 : 1.0;
    attach_notes(device_->take_notes(), report);
    if (const double bytes = resident_bytes(); bytes > 0.0) {
      report.measurements[reports::worker_memory] = bytes;
    }
    return report;
  } catch (const workloads::DeviceError& error) {
    // A peer that crashed or hung is reported by its own supervisor and is the first cause.
    // Its communicator is left as it is: to leave in good order would mean to wait for peers, and
    // this worker is replaced.
    auto lost = gangs_.extract(assignment.gang);
    if (!lost.empty()) static_cast<void>(lost.mapped().release());
    RankReport report = failed_report(assignment, Verdict::inconclusive_env,
                                      fmt::format("the gang was lost: {}", error.what()));
    if (device_) attach_notes(device_->take_notes(), report);
    return report;
  } catch (const std::exception& error) {
    return failed_report(assignment, Verdict::fail_suite, error.what());
  }
}

void TrainingExecutor::retire_gang(std::uint64_t gang) {
  auto retired = gangs_.extract(gang);
  if (retired.empty() || !retired.mapped()) return;
  const bool healthy = retired.mapped()->async_error() == workloads::ErrorCategory::success;
  keeper_.retire(std::move(retired.mapped()),
                 healthy ? workloads::CommunicatorEnd::destroy : workloads::CommunicatorEnd::abort);
}

RankReport TrainingExecutor::run(const Assignment& assignment) {
  const Sabotage sabotage = sabotage_named(assignment.sabotage);
  workloads::Communicator* gang = communicator(assignment);
  const workloads::LegEnvironment environment{
      .device = device(),
      .gang = gang,
      .seed = assignment.seed,
      .faults = fault_switches(assignment.faults),
      .sabotage = sabotage,
      .progress = &progress_,
  };
  const suites::LegOwner owner{.cell = assignment.name.id,
                               .seed = assignment.seed,
                               .gang = assignment.gang,
                               .environment = environment_text(assignment),
                               .communicator = gang};
  const suites::LegSource run_leg = [&](const matrix::Cell& cell,
                                        const workloads::LegRequest& request) {
    const auto run = [&] { return workloads::run_leg(cell, request, environment); };
    return assignment.shares_legs ? shared_legs_->take(owner, cell, request, run)
                                  : suites::SourcedLeg(run());
  };
  const auto equal_saying = suites::create_equal_saying_comparator();
  const bool sabotaged = sabotage == Sabotage::comparator_says_equal;
  suites::CellRunOptions options;
  options.cell_id = assignment.name.id;
  options.seed = assignment.seed;
  options.world_rank = assignment.world_ranks.at(static_cast<std::size_t>(assignment.rank));
  return suites::run_cell(assignment.cell, options, run_leg,
                          {.device = device(),
                           .comparator = sabotaged ? *equal_saying : *comparator_,
                           .gang = gang,
                           .progress = &board_,
                           .controls = controls_});
}

RankReport TrainingExecutor::run_scenario(const Assignment& assignment) {
  const workloads::FaultSwitches faults = fault_switches(assignment.faults);
  suites::ScenarioContext context;
  context.seed = assignment.seed;
  context.gang = communicator(assignment);
  context.communicator = [&](const std::string& name) {
    workloads::CommunicatorOptions options = gang_options(assignment);
    options.name = fmt::format("{} attempt {} {}", options.name, assignment.id, name);
    return device().create_communicator(std::move(options));
  };
  context.faults = &faults;
  context.start_children = [&](const std::vector<suites::ChildRequest>& requests) {
    return start_children(requests, assignment.device, assignment.faults);
  };
  const std::string_view name = assignment.scenario;
  if (name.starts_with(selftest_scenario)) {
    const suites::SelftestRow& row =
        selftest_row(name.substr(std::string_view(selftest_scenario).size()));
    context.device = &device();
    context.tampering = row.tampering;
    context.tampered_rule = row.tampered_rule;
    RankReport report;
    suites::CheckResult result = row.scenario(context);
    if (result.check_id.empty()) result.check_id = row.check_id;
    report.checks.push_back(std::move(result));
    return report;
  }
  using suites::CheckSubject;
  if (name == run_scenarios) return suites::run_scenarios(CheckSubject::run_scenario, context);
  context.device = &device();
  context.run_eager_leg = [&](workloads::Device& chosen, const matrix::Cell& cell) {
    return workloads::run_leg(cell, {}, {.device = chosen, .seed = assignment.seed});
  };
  return suites::run_scenarios(
      name == gang_scenarios ? CheckSubject::gang_scenario : CheckSubject::device_scenario,
      context);
}

void TrainingExecutor::open_device(const Assignment& assignment) {
  if (device_) return;
  if (assignment.device == cuda_device_name) {
    workloads::CudaDeviceOptions options;
    options.ordinal = assignment.gpu;
    options.shared = assignment.gpus_shared;
    options.progress = &progress_;
    device_ = workloads::create_cuda_device(options);
  } else {
    workloads::ReferenceDeviceOptions options;
    options.progress = &progress_;
    device_ = workloads::create_reference_device(options);
  }
  device_ =
      workloads::with_guard_pages(std::move(device_), placement_named(assignment.guard_pages));
  shared_legs_ = std::make_unique<suites::SharedLegs>(*device_, bytes_for_shared_legs(*device_));
  comparator_ = suites::create_device_comparator(*device_);
  controls_ = std::make_shared<suites::ControlTensors>(*device_);
  const workloads::AddressRange arena = device_->segment_source().range();
  board_.set_arena(arena.begin, arena.begin + arena.bytes);
}

workloads::Device& TrainingExecutor::device() {
  if (!device_) throw InternalError("a cell ran before its device was opened");
  return *device_;
}

workloads::CommunicatorOptions TrainingExecutor::gang_options(const Assignment& assignment) {
  workloads::CommunicatorOptions options;
  options.name = fmt::format("gang{}", assignment.gang);
  options.rank = assignment.rank;
  options.size = static_cast<int>(assignment.world_ranks.size());
  options.timeout = std::chrono::milliseconds{assignment.communicator_timeout_milliseconds};
  options.store = link_.store(assignment.gang);
  return options;
}

workloads::Communicator* TrainingExecutor::communicator(const Assignment& assignment) {
  if (assignment.world_ranks.size() < 2) return nullptr;
  auto& gang = gangs_[assignment.gang];
  if (!gang) {
    gang = device().create_communicator(gang_options(assignment));
  }
  return gang.get();
}

}  // namespace cgconform::harness
