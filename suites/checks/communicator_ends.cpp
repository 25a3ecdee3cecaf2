#include "suites/checks/communicator_ends.hpp"

#include <array>
#include <future>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "suites/checks/child_programs.hpp"
#include "workloads/device/device.hpp"
#include "workloads/lifecycle/communicator_teardown.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::CommunicatorEnd;
using workloads::CommunicatorTeardown;

constexpr std::array ends{CommunicatorEnd::destroy, CommunicatorEnd::finalize,
                          CommunicatorEnd::abort};
constexpr double teardown_deadline = 5.0;  // seconds
constexpr std::chrono::milliseconds child_deadline{400};

/// What is wrong with a teardown that ends a communicator; empty where nothing is.
std::string find_trouble(const CommunicatorTeardown& record) {
  if (record.launches_after_end > 0) {
    return fmt::format("{} launches of a graph whose communicator had been ended",
                       record.launches_after_end);
  }
  if (!record.error.empty()) return record.error;
  if (!record.replayed_rightly) return "the replays before it are wrong";
  if (!record.ended) return "the communicator was not ended at last";
  if (record.seconds > teardown_deadline) return fmt::format("it took {:.1f} s", record.seconds);
  return {};
}

/// What is wrong with the guard that puts ends off.
std::string find_unguarded(workloads::Device& device, CommunicatorEnd how) {
  const CommunicatorTeardown record = workloads::retire_before_graphs(device, how);
  if (record.references_when_retired == 0) return "no graph held the communicator";
  if (!record.deferred) return "it was ended although a graph holds it";
  return find_trouble(record);
}

std::string call_name(CommunicatorEnd how) {
  return std::string(workloads::communicator_end_name(how));
}

}  // namespace

CheckResult judge_communicator_teardown(ScenarioContext& context) {
  for (const CommunicatorEnd how : ends) {
    const CommunicatorTeardown record =
        workloads::run_communicator_teardown(*context.device, how, context.faults);
    if (record.references_when_retired > 0) {
      return {.verdict = Verdict::fail_teardown,
              .detail = fmt::format("the communicator was to end while {} graphs and executables "
                                    "hold it{}{}",
                                    record.references_when_retired,
                                    record.error.empty() ? "" : ": ", record.error)};
    }
    const std::string trouble = find_trouble(record);
    if (!trouble.empty()) {
      return {.verdict = Verdict::fail_teardown,
              .detail = fmt::format("{}: {}", call_name(how), trouble)};
    }
  }
  return {.detail = "graphs were gone before their communicator, which then ended at once"};
}

CheckResult judge_communicator_ends(ScenarioContext& context) {
  // A communicator of NCCL that has one rank runs nothing a graph could hold it by.
  const int ranks = context.device->properties().kind == "cuda" ? 2 : 1;
  std::vector<ChildRequest> requests;
  for (const CommunicatorEnd how : ends) {
    requests.push_back(
        {.program = raw_end_program(how), .ranks = ranks, .deadline = child_deadline});
  }
  // The children need seconds to start, beside which this process does its own part.
  std::future<std::vector<ChildOutcome>> children;
  if (context.start_children) {
    children = std::async(std::launch::async, [&] { return context.start_children(requests); });
  }
  CheckResult ordered = judge_communicator_teardown(context);
  if (ordered.verdict != Verdict::pass) return ordered;
  for (const CommunicatorEnd how : ends) {
    const std::string trouble = find_unguarded(*context.device, how);
    if (trouble.empty()) continue;
    return {.verdict = Verdict::fail_teardown,
            .detail = fmt::format("{} with a live graph: {}", call_name(how), trouble)};
  }
  if (!context.start_children) {
    return {.verdict = Verdict::skip,
            .detail = "the library's own calls need child processes, and none can be had here"};
  }
  const std::vector<ChildOutcome> outcomes = children.get();
  std::string seen;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const ChildOutcome& outcome = outcomes.at(i);
    const std::string text = fmt::format(
        "{} {}", call_name(ends.at(i)),
        outcome.end == ChildEnd::hung ? verdict_name(Verdict::hang) : child_end_name(outcome.end));
    if (outcome.end != ChildEnd::hung) {
      return {.verdict = Verdict::fail_teardown,
              .detail = fmt::format("the library's own call with a live graph was to wait for it: "
                                    "{}: {}",
                                    text, outcome.output)};
    }
    seen += (seen.empty() ? "" : ", ") + text;
  }
  return {.detail = fmt::format("put off by the teardown; in children without it: {}", seen)};
}

CheckResult judge_teardown_of_ranks(ScenarioContext& context) {
  if (!context.start_children) {
    return {.verdict = Verdict::skip, .detail = "child processes are not to be had here"};
  }
  const std::array requests{ChildRequest{
      .program = ranks_program, .ranks = 2, .deadline = std::chrono::milliseconds{3000}}};
  const std::vector<ChildOutcome> outcomes =
      context.start_children({requests.begin(), requests.end()});
  const ChildOutcome& outcome = outcomes.at(0);
  if (outcome.end == ChildEnd::exited) {
    return {.detail = "two ranks destroyed their graphs when both had replayed"};
  }
  const bool started = outcome.end != ChildEnd::no_start;
  return {.verdict = started ? Verdict::fail_teardown : Verdict::fail_suite,
          .detail = fmt::format("two ranks that tear down: {}: {}", child_end_name(outcome.end),
                                outcome.output)};
}

}  // namespace cgconform::suites::checks
