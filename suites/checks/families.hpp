#pragma once

#include <span>

#include "suites/check.hpp"

/// The built checks by family or subject, each in the order of the catalogue; check_table() joins
/// them.
namespace cgconform::suites::checks {

std::span<const CheckDefinition> constraint_checks();
std::span<const CheckDefinition> numeric_checks();
std::span<const CheckDefinition> memory_checks();
std::span<const CheckDefinition> communication_checks();
std::span<const CheckDefinition> lifecycle_checks();
std::span<const CheckDefinition> concurrency_checks();
std::span<const CheckDefinition> performance_checks();
std::span<const CheckDefinition> tooling_checks();
std::span<const CheckDefinition> suite_checks();
/// Of several families: what the schedule of a pipeline asks of graphs.
std::span<const CheckDefinition> schedule_checks();

}  // namespace cgconform::suites::checks
