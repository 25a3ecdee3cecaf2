#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "matrix/cell.hpp"
#include "suites/check.hpp"
#include "suites/comparison.hpp"
#include "suites/leg_set.hpp"
#include "suites/result_record.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/device/device.hpp"
#include "workloads/training/leg_request.hpp"

namespace cgconform::suites {

/// Runs one leg of a cell on this rank, or gives one that an earlier cell ran. What else it needs
/// (gang, seed, switches) is bound by the caller and unknown to the suites.
using LegSource = std::function<SourcedLeg(const matrix::Cell&, const workloads::LegRequest&)>;

/// What a cell runs on: one rank of a gang.
struct CellEnvironment {
  workloads::Device& device;
  TensorComparator& comparator;
  workloads::Communicator* gang = nullptr;  ///< null where the cell has one rank
  workloads::ProgressSink* progress = nullptr;
  std::shared_ptr<ControlTensors> controls;  ///< kept from cell to cell; null makes the cell's own
};

struct CellRunOptions {
  std::string cell_id;     ///< the cell's readable id, part of the digest
  std::uint64_t seed = 0;  ///< the one the leg source is bound to
  int world_rank = 0;
  std::string host;
  std::span<const CheckDefinition> checks = check_table();
};

/// Runs the planned legs of a cell, each once, and judges all checks on them. Every rank of the
/// gang calls it with the same cell and options; ranks agree on digest and legs by exchange, so
/// that all stop running legs after the first one that failed on any of them. Failures stand in the
/// report; throws DeviceError only where the gang itself is lost.
RankReport run_cell(const matrix::Cell& cell, const CellRunOptions& options,
                    const LegSource& run_leg, const CellEnvironment& environment);

/// The check result that decides a rank's verdict: the failing one whose verdict stands first in
/// the cause order; null where none fails.
const CheckResult* deciding_check(std::span<const CheckResult> checks);

/// Runs every scenario with `subject`; scenarios that throw are failed with the check's own
/// verdict.
RankReport run_scenarios(CheckSubject subject, ScenarioContext& context,
                         std::span<const CheckDefinition> checks = check_table());

}  // namespace cgconform::suites
