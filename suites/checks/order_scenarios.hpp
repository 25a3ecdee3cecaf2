#pragma once

#include "suites/check.hpp"

/// Scenarios of one rank: order inside graphs, across graphs, and between graphs and eager work.
namespace cgconform::suites::checks {

/// CCY-01: forks into 2, 4 and 64 branches are joined by paths, and right.
CheckResult judge_fork_and_join(ScenarioContext& context);

/// CCY-03: what a graph or eager work produces late is there for the graph or eager work behind it,
/// on one stream and on two with an event between.
CheckResult judge_order_across_graphs(ScenarioContext& context);

/// Control: launches of one executable on two streams are ordered without an event.
CheckResult judge_one_executable_on_two_streams(ScenarioContext& context);

/// Control: a floating-point sum in another order is within tolerance, though not bit for bit
/// equal.
CheckResult judge_sums_in_another_order(ScenarioContext& context);

}  // namespace cgconform::suites::checks
