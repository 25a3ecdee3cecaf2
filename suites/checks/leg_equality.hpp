#pragma once

#include <string_view>

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// `eager leg: WHAT`.
CheckResult failed_leg(Verdict verdict, const workloads::LegRequest& leg, std::string_view what);

/// Passes where every tensor of the compared graph legs equals its eager leg's; `how` says of which
/// legs that was seen. FAIL_COVERAGE where no tensor was compared.
CheckResult judge_equality(JudgeContext& context, std::string_view how);

}  // namespace cgconform::suites::checks
