#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// CON-20: the constraint engine against the oracle, over the built-in matrix `full` and over
/// random configurations.
CheckResult judge_against_oracle(ScenarioContext& context);
/// CON-22: judging refused configurations opens no file, starts no thread and is done in time.
CheckResult judge_side_effects(ScenarioContext& context);
/// CON-23: a configuration that breaks many rules is told all of them, always the same first.
CheckResult judge_all_rules_listed(ScenarioContext& context);

}  // namespace cgconform::suites::checks
