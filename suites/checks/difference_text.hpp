#pragma once

#include <string>

#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {

/// Where an observation of `actual` differs from the same of `expected`, with figures.
std::string describe_difference(const ObservationOutcome& outcome,
                                const workloads::LegRequest& expected,
                                const workloads::LegRequest& actual);

}  // namespace cgconform::suites::checks
