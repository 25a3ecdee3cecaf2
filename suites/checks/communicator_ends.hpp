#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// The order in which a program with a captured collective is torn down; part of LIF-08 and the
/// place where its faults show.
CheckResult judge_communicator_teardown(ScenarioContext& context);

/// LIF-08: the product's teardown puts off the end of a communicator that a graph holds. The
/// library's own calls, made in child processes, do not come back: each is ended at its deadline.
CheckResult judge_communicator_ends(ScenarioContext& context);

/// Two ranks that tear down together, in child processes.
CheckResult judge_teardown_of_ranks(ScenarioContext& context);

}  // namespace cgconform::suites::checks
