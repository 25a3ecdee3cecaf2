#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/built_features.hpp"
#include "matrix/cell.hpp"
#include "suites/verdict.hpp"
#include "workloads/faults/fault_table.hpp"

namespace cgconform::suites {

/// What a platform can lack for a probe to show anything.
enum class ProbeNeeds : std::uint8_t { any_device, cuda };

/// One row of `cgconform probe`: what is run to see what a rule protects against. The rule's guard
/// is lifted: its cell runs although the rule refuses it, and guards that the workload has itself
/// are switched off.
struct Probe {
  std::string_view rule;
  std::string_view variant{};   ///< where a rule has several probes
  std::string_view protects{};  ///< against what, physically
  std::optional<matrix::Cell> cell{};
  /// Further rules that the cell breaks; lifted with it.
  std::vector<std::string_view> beside{};
  /// Guards of the workload, by the fault that leaving one out is.
  std::vector<workloads::Fault> switches{};
  std::string_view selftest_row{};    ///< whose scenario shows it, in place of a cell
  std::optional<Verdict> expected{};  ///< absent: nothing happens on the devices there are
  std::string_view check_id{};        ///< that must fire; empty where none in particular
  ProbeNeeds needs = ProbeNeeds::any_device;
  std::string_view not_shown{};  ///< why there is nothing to run; empty where there is

  /// `rule` or `rule/variant`.
  std::string name() const;
};

/// A row for every rule of the constraint table that protects against a physical failure, in the
/// order of subjects.
std::span<const Probe> probe_table();
/// The rows of a rule, in their order.
std::vector<const Probe*> probes_of(std::string_view rule);

/// Why the probe cannot be shown on a device; empty where it can.
std::string why_not_shown(const Probe& probe, matrix::TargetDevice device);

/// True where the ruleset `cgconform` refuses cells by this rule.
bool refuses_cells(std::string_view rule);
/// Guards of the workload that are lifted with the rule, over all of its probes.
std::vector<workloads::Fault> switches_of(std::string_view rule);

/// The table as Markdown: docs/probes.md.
std::string probes_markdown();

}  // namespace cgconform::suites
