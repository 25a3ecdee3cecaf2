#pragma once

#include <cstddef>
#include <vector>

#include "suites/leg_set.hpp"
#include "suites/result_record.hpp"
#include "workloads/training/leg_record.hpp"
#include "workloads/training/leg_request.hpp"

namespace cgconform::suites {

/// The eager steps, timed as those of `timed_graph_leg` are, and watched by nothing.
workloads::LegRequest timed_eager_leg();

/// A median and the interval between two order statistics that holds the true one with so much
/// confidence: 0.95 at least where there are enough samples, else what the smallest and the largest
/// give. No distribution is assumed.
struct MedianInterval {
  double median = 0.0;
  double low = 0.0;
  double high = 0.0;
  double confidence = 0.0;
  std::size_t samples = 0;
};
MedianInterval median_interval(std::vector<double> values);

/// The steps of a timed leg that show its speed: of an eager leg all but the first, in which memory
/// is allocated and algorithms are chosen, of a graph leg those that replay and capture nothing.
std::vector<workloads::StepTimes> steady_steps(const workloads::LegRequest& request,
                                               const workloads::LegRecord& record);

/// Notes the medians of eager and replayed steps, by the device and by the host, in the report.
void measure_steps(const LegSet& legs, RankReport& report);

}  // namespace cgconform::suites
