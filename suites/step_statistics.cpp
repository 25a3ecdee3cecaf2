#include "suites/step_statistics.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace cgconform::suites {
namespace {

using workloads::LegKind;
using workloads::LegRequest;
using workloads::StepTimes;

constexpr double wanted_confidence = 0.95;

void note(std::string_view what, const MedianInterval& interval, RankReport& report) {
  if (interval.samples == 0) return;
  const auto add = [&](std::string_view figure, double value) {
    report.measurements[fmt::format("{} {}", what, figure)] = value;
  };
  add("median ms", interval.median);
  add("low ms", interval.low);
  add("high ms", interval.high);
  add("confidence", interval.confidence);
  add("samples", static_cast<double>(interval.samples));
}

MedianInterval interval_of(const std::vector<StepTimes>& steps, double StepTimes::*figure) {
  std::vector<double> values;
  std::transform(steps.begin(), steps.end(), std::back_inserter(values),
                 [&](const StepTimes& step) { return step.*figure; });
  return median_interval(std::move(values));
}

}  // namespace

LegRequest timed_eager_leg() {
  return {.repetition = 1, .timed = true};
}

MedianInterval median_interval(std::vector<double> values) {
  MedianInterval interval{.samples = values.size()};
  if (values.empty()) return interval;
  std::sort(values.begin(), values.end());
  const std::size_t count = values.size();
  const std::size_t half = count / 2;
  interval.median = count % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
  // The median lies outside of the k-th smallest and largest where fewer than k samples fall on one
  // side of it; how many do is binomial.
  std::size_t chosen = 0;
  double term = 1.0;  // of the binomial distribution, at 0
  for (std::size_t i = 0; i < count; ++i) term /= 2.0;
  double below = term;
  interval.confidence = 1.0 - 2.0 * below;
  for (std::size_t k = 1; k < half; ++k) {
    term *= static_cast<double>(count - k + 1) / static_cast<double>(k);
    below += term;
    if (1.0 - 2.0 * below < wanted_confidence) break;
    chosen = k;
    interval.confidence = 1.0 - 2.0 * below;
  }
  interval.low = values[chosen];
  interval.high = values[count - 1 - chosen];
  return interval;
}

std::vector<StepTimes> steady_steps(const LegRequest& request, const workloads::LegRecord& record) {
  std::vector<StepTimes> steady;
  for (const StepTimes& step : record.steps) {
    const bool counts = request.kind == LegKind::eager ? &step != &record.steps.front()
                                                       : step.replayed && !step.captured;
    if (counts) steady.push_back(step);
  }
  return steady;
}

void measure_steps(const LegSet& legs, RankReport& report) {
  for (const auto& [request, state] : legs.all()) {
    if (!request.timed || !state.complete()) continue;
    const std::vector<StepTimes> steps = steady_steps(request, state.record());
    const char* kind = request.kind == LegKind::eager ? "eager" : "replayed";
    note(fmt::format("{} step", kind), interval_of(steps, &StepTimes::device), report);
    note(fmt::format("{} step host", kind), interval_of(steps, &StepTimes::host), report);
  }
}

}  // namespace cgconform::suites
