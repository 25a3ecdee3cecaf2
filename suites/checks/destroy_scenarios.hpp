#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// LIF-05: captures with another body, another set of communicators and another size, twenty times.
CheckResult judge_recapture(ScenarioContext& context);

/// LIF-07 on the bare device: graph, executable, stream, buffers and communicator are destroyed in
/// every order in which the communicator goes after the graphs that use it.
CheckResult judge_destroy_orders(ScenarioContext& context);

/// LIF-11: graphs that were captured, instantiated or not, and never launched leave nothing.
CheckResult judge_never_launched(ScenarioContext& context);

}  // namespace cgconform::suites::checks
