#pragma once

#include <string>
#include <vector>

#include "suites/child_program.hpp"

namespace cgconform::harness {

/// Runs child programs in processes of this program's file, side by side, and ends those that miss
/// their deadlines; see suites::ChildStarter. Throws EnvironmentError where none can be started.
std::vector<suites::ChildOutcome> start_children(const std::vector<suites::ChildRequest>& requests,
                                                 const std::string& device,
                                                 const std::vector<std::string>& faults);

}  // namespace cgconform::harness
