#pragma once

#include "suites/check.hpp"

namespace cgconform::suites::checks {

/// MEM-11: the same captured products over every kind of segments that the device has, with buffers
/// that span several physical chunks where segments consist of such.
CheckResult judge_segment_kinds(ScenarioContext& context);

}  // namespace cgconform::suites::checks
