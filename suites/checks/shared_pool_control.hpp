#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// The control C1: independent graphs share one pool, never run at once, and their outputs are
/// consumed before the next launch. Replayed in any order they are right, though temporaries of one
/// lie where the others have theirs: a checker that fires on the sharing alone is too eager.
CheckResult judge_shared_pool_control(ScenarioContext& context);

}  // namespace cgconform::suites::checks
