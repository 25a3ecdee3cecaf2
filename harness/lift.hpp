#pragma once

#include <string>
#include <vector>

#include "suites/result_record.hpp"
#include "workloads/faults/fault_table.hpp"

namespace cgconform::harness {

/// The rules of `--lift RULE[,RULE]`, each once. Throws InputError for a rule that is unknown, that
/// protects against nothing physical or that nothing in this build can show, with the nearest one
/// that can be lifted.
std::vector<std::string> parse_lifts(const std::vector<std::string>& given);

/// Of the rules, those whose guard the workload itself has and that mean something in the cell.
std::vector<std::string> lifted_in_workload(const std::vector<std::string>& rules,
                                            const matrix::Cell& cell);
/// Ids of the switches that turn off the workload's own guards of these rules.
std::vector<std::string> lifted_switches(const std::vector<std::string>& rules,
                                         const matrix::Cell& cell);

/// Says in a result which guards were lifted; what passed all the same ends as GUARD_LIFTED.
void mark_lifted(suites::CellResult& result, const std::vector<std::string>& rules);

}  // namespace cgconform::harness
