#include "workloads/training/step_timer.hpp"

#include <algorithm>

namespace cgconform::workloads {

void StepTimer::begin(std::int32_t step) {
  if (!on()) return;
  graphs_before_ = context_.record.graphs.size();
  executions_before_ = context_.record.executions.size();
  Span& span = spans_.emplace_back();
  span.times.step = step;
  span.begin = context_.device().create_event(EventKind::timing);
  span.end = context_.device().create_event(EventKind::timing);
  context_.stream().record(*span.begin);
  since_ = std::chrono::steady_clock::now();
}

void StepTimer::end() {
  if (!on()) return;
  Span& span = spans_.back();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - since_;
  context_.stream().record(*span.end);
  const auto& executions = context_.record.executions;
  span.times.host = spent.count();
  span.times.captured = context_.record.graphs.size() != graphs_before_;
  span.times.replayed = std::any_of(
      executions.begin() + static_cast<std::ptrdiff_t>(executions_before_), executions.end(),
      [](const ExecutionRecord& execution) { return execution.replayed; });
}

void StepTimer::finish() {
  for (Span& span : spans_) {
    span.times.device = span.end->elapsed_since(*span.begin);
    context_.record.steps.push_back(span.times);
  }
  spans_.clear();
}

}  // namespace cgconform::workloads
