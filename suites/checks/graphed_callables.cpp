#include "suites/checks/graphed_callables.hpp"

#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "suites/comparison.hpp"
#include "suites/tolerance.hpp"
#include "workloads/device/device.hpp"
#include "workloads/lifecycle/graphed_callables.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::CallableRecord;
using workloads::CallableRequest;

std::string request_text(const CallableRequest& request) {
  return fmt::format("{} after {} runs on a side stream",
                     request.trained ? "forward and backward" : "inference", request.warmups);
}

/// The first tensor handed out that is not eager's; empty where all are.
std::string find_difference(ControlledComparator& comparator, const CallableRecord& record) {
  std::vector<ComparisonPair> pairs;
  for (std::size_t i = 0; i < record.eager.size(); ++i) {
    const auto& [name, tensor] = record.eager[i];
    if (i >= record.graphed.size() || record.graphed[i].first != name) {
      return fmt::format("{} was not handed out", name);
    }
    pairs.push_back({.expected = tensor.view(), .actual = record.graphed[i].second.view()});
  }
  const std::vector<Comparison> outcomes = comparator.compare(std::move(pairs), Tolerance{});
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].equal()) continue;
    return fmt::format("{}[{}] is {} in place of {} ({} of {} elements)", record.eager[i].first,
                       outcomes[i].first_bad_index, outcomes[i].actual, outcomes[i].expected,
                       outcomes[i].bad_count, outcomes[i].element_count);
  }
  return {};
}

}  // namespace

CheckResult judge_graphed_callables(ScenarioContext& context) {
  const auto plain = create_device_comparator(*context.device);
  ControlledComparator comparator(*context.device, *plain);
  std::size_t compared = 0;
  std::uint64_t replays = 0;
  for (const auto& [trained, warmups] :
       {std::pair{false, 3}, std::pair{true, 3}, std::pair{true, 11}}) {
    const CallableRequest request{.trained = trained, .warmups = warmups, .seed = context.seed};
    const CallableRecord record =
        workloads::run_graphed_callables(*context.device, request, context.faults);
    const std::string what = request_text(request);
    if (record.ran_at_capture != 0) {
      return {.verdict = Verdict::fail_capture,
              .detail = fmt::format("{}: {} launches and nodes ran inside the captures", what,
                                    record.ran_at_capture)};
    }
    const auto graphs = static_cast<std::uint64_t>(trained ? 2 : 1);
    if (record.nodes == 0 || record.replays != graphs * static_cast<std::uint64_t>(request.calls)) {
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format("{}: {} nodes, {} replays of {} graphs in {} calls", what,
                                    record.nodes, record.replays, graphs, request.calls)};
    }
    const std::string difference = find_difference(comparator, record);
    if (!difference.empty()) {
      return {.verdict = Verdict::fail_overwrite,
              .detail = fmt::format("{}: {}", what, difference)};
    }
    compared += record.eager.size();
    replays += record.replays;
  }
  if (!comparator.control_failure().empty()) {
    return {.verdict = Verdict::fail_suite, .detail = comparator.control_failure()};
  }
  return {.detail = fmt::format("{} tensors of {} replays are what eager code hands out", compared,
                                replays)};
}

}  // namespace cgconform::suites::checks
